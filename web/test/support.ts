// Where the tests find the native command, the artifacts and the module.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { Halves, Run } from '../src/halves.js';
import { loadArtifact } from '../src/load.js';
import { SlmModule } from '../src/module.js';
import { openSource } from '../src/source.js';

/** The repository; this file runs from web/build/test. */
export const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
export const SLM = process.env['SLM'] ?? join(ROOT, 'build/release/apps/slm/slm');
const ARTIFACTS = process.env['SLM_ARTIFACTS'] ?? join(ROOT, 'build/artifacts');

/** Models whose sources are on this machine. */
export const MODELS = (process.env['SLM_MODELS'] ?? 'slm-demo,stories260k').split(',');

const readModule = (name: string): Uint8Array => new Uint8Array(readFileSync(new URL(`../src/${name}.wasm`, import.meta.url)));
/** The modules: a model's weights, its tokenizer and template, evidence. */
export const WASM = readModule('slm');
export const TEXT = readModule('slm-text');
export const EVIDENCE = readModule('slm-evidence');

export async function instantiate(wasm: Uint8Array): Promise<SlmModule> {
  return SlmModule.instantiate(await WebAssembly.compile(wasm as Uint8Array<ArrayBuffer>));
}

export function artifactPath(name: string): string {
  return join(ARTIFACTS, `${name}.slm`);
}

export function readArtifact(name: string): Uint8Array {
  return new Uint8Array(readFileSync(artifactPath(name)));
}

/** Standard output of the native command, which must end with 0. */
export function slm(args: string[], input = ''): string {
  const done = spawnSync(SLM, args, { input, encoding: 'utf8', maxBuffer: 1 << 28 });
  if (done.status !== 0) throw new Error(`slm ${args.join(' ')}: ${done.status} ${done.stderr}`);
  return done.stdout;
}

/** A model in its modules on this thread: what the worker does, without the worker. */
export async function openModel(bytes: Uint8Array, wasm: Uint8Array = WASM): Promise<Halves> {
  const core = await instantiate(wasm);
  const { artifact } = await loadArtifact(core, openSource({ kind: 'bytes', bytes }), {
    signal: new AbortController().signal,
    onProgress: () => undefined,
    storage: 'none in a test',
    subtle: crypto.subtle,
    retryDelay: 1,
  });
  return new Halves(core, await instantiate(TEXT), artifact);
}

/** A whole run, the prompt fed `chunk` ids at a time (0: at once). */
export function run(halves: Halves, record: string, chunk: number): Record<string, unknown> {
  const session = halves.openSession(0);
  const run = new Run(halves, session, record);
  let state = { done: false, n_fed: run.prompt.n_fed, n_prompt: run.prompt.prompt_ids.length };
  while (state.n_fed < state.n_prompt) state = run.prefill(chunk);
  for (let { done } = state; !done; ) ({ done } = run.next());
  const result = run.finish();
  run.free();
  halves.core.free('slm_session_free', session);
  return result;
}

/** A whole suite: the container. */
export function observe(halves: Halves, options: object, cases: Uint8Array, like = new Uint8Array(0)): Uint8Array {
  const suite = halves.observe(options, cases, like);
  for (;;) {
    const step = suite.next();
    if (step.done === true) return step.value;
  }
}

function cborText(text: string): Uint8Array {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length > 23) throw new Error('longer than this helper needs');
  return Uint8Array.of(0x60 + bytes.length, ...bytes);
}

/**
 * Blobs (all arrays) and envelope of a golden container (docs/spec/golden.md, 1), backend and kernel renamed, and
 * without the hash of the generator map, which holds those two names.
 */
export function partsOf(container: Uint8Array, rename: [string, string][] = []): { blobs: Buffer; envelope: string } {
  const bytes = Buffer.from(container.buffer, container.byteOffset, container.length);
  const at = Number(bytes.readBigUInt64LE(bytes.length - 64));
  const size = Number(bytes.readBigUInt64LE(bytes.length - 56));
  let envelope = bytes.subarray(at, at + size).toString('latin1');
  for (const [from, to] of rename) {
    const [a, b] = [from, to].map((text) => Buffer.from(cborText(text)).toString('latin1')) as [string, string];
    if (envelope.split(a).length !== 2) throw new Error(`${from} stands not once in the envelope`);
    envelope = envelope.replace(a, b);
  }
  const hash = /igeneratorX [\s\S]{32}/g;
  if (envelope.match(hash)?.length !== 1) throw new Error('the identity of the generator stands not once in the envelope');
  return { blobs: bytes.subarray(0, at), envelope: envelope.replace(hash, 'igenerator') };
}
