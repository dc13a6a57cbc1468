// Where the tests find the native command, the artifacts and the module.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { loadArtifact } from '../src/load.js';
import { SlmModule } from '../src/module.js';
import { openSource } from '../src/source.js';

/** The repository; this file runs from web/build/test. */
export const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
export const SLM = process.env['SLM'] ?? join(ROOT, 'build/release/apps/slm/slm');
const ARTIFACTS = process.env['SLM_ARTIFACTS'] ?? join(ROOT, 'build/artifacts');

/** Models whose sources are on this machine. */
export const MODELS = (process.env['SLM_MODELS'] ?? 'slm-demo,stories260k').split(',');

export const WASM = new Uint8Array(readFileSync(new URL('../src/slm.wasm', import.meta.url)));

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

export interface Opened {
  module: SlmModule;
  model: number;
}

/** A model in a module on this thread: what the worker does, without the worker. */
export async function openModel(bytes: Uint8Array, wasm: Uint8Array = WASM): Promise<Opened> {
  const module = await SlmModule.instantiate(await WebAssembly.compile(wasm as Uint8Array<ArrayBuffer>), () => undefined);
  const { artifact } = await loadArtifact(module, openSource({ kind: 'bytes', bytes }), {
    signal: new AbortController().signal,
    onProgress: () => undefined,
    storage: 'none in a test',
    subtle: crypto.subtle,
    retryDelay: 1,
  });
  return { module, model: module.open('slm_model_open', artifact).handle };
}

/** A whole run, the prompt fed `chunk` ids at a time (0: at once). */
export function run({ module, model }: Opened, record: string, chunk: number): Record<string, unknown> {
  const session = module.open('slm_session_new', model, 0).handle;
  const { handle, answer } = module.open('slm_run_new', session, record);
  let state = { done: false, n_fed: 0, n_prompt: (answer as { prompt_ids: number[] }).prompt_ids.length };
  while (state.n_fed < state.n_prompt) state = module.json('slm_run_prefill', handle, chunk) as typeof state;
  while (!state.done) state = module.json('slm_run_next', handle) as typeof state;
  const result = module.json('slm_run_finish', handle) as Record<string, unknown>;
  module.free('slm_session_free', session);
  return result;
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
