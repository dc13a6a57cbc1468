// Converts and renders templates in the page under test. The runner calls `check(name, argument)` and gets JSON back.
import { SlmError } from '../../src/errors.js';
import { Halves } from '../../src/halves.js';
import { loadArtifact } from '../../src/load.js';
import { SlmModule } from '../../src/module.js';
import { openSource } from '../../src/source.js';
import { type Answer, type Case, plain } from './answers.js';

const bytesOf = async (url: string): Promise<Uint8Array<ArrayBuffer>> => new Uint8Array(await (await fetch(url)).arrayBuffer());
const instantiate = async (name: string): Promise<SlmModule> => SlmModule.instantiate(await WebAssembly.compile(await bytesOf(`/src/${name}.wasm`)));

async function digest(data: string | Uint8Array): Promise<string> {
  const bytes = new Uint8Array(typeof data === 'string' ? new TextEncoder().encode(data) : data);
  return Array.from(new Uint8Array(await crypto.subtle.digest('SHA-256', bytes)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

let cases: Case[] = [];
let converter: SlmModule | undefined;
let model: Halves | undefined;
const programs = new Map<string, Uint8Array | SlmError>();

function attempt<T>(work: () => T): T | SlmError {
  try {
    return work();
  } catch (fault) {
    if (fault instanceof SlmError) return fault;
    throw fault;
  }
}

function programOf(source: string): Uint8Array | SlmError {
  const known = programs.get(source);
  if (known !== undefined) return known;
  if (converter === undefined) throw new Error('not prepared');
  const module = converter;
  const made = attempt(() => module.bytes('slm_template_convert', source).slice());
  programs.set(source, made);
  return made;
}

function answerOf(one: Case): Answer {
  const program = programOf(one.template);
  if (model === undefined) throw new Error('not prepared');
  const halves = model;
  const answer = program instanceof SlmError ? program : attempt(() => halves.render(JSON.stringify(one), program) as Answer);
  return plain(answer instanceof SlmError ? { error: answer.facts() } : answer);
}

const checks: Record<string, (argument: never) => Promise<unknown>> = {
  async prepare(argument: { cases: string; artifact: string }) {
    cases = (await (await fetch(argument.cases)).json()) as Case[];
    converter = await instantiate('slm-evidence');
    const core = await instantiate('slm');
    const { artifact } = await loadArtifact(core, openSource({ kind: 'bytes', bytes: await bytesOf(argument.artifact) }), {
      signal: new AbortController().signal,
      onProgress: () => undefined,
      storage: 'none in a test',
      subtle: crypto.subtle,
      retryDelay: 1,
    });
    model = new Halves(core, await instantiate('slm-text'), artifact);
    return cases.length;
  },
  /** SHA-256 of each answer's JSON. */
  async answers() {
    return Promise.all(cases.map((one) => digest(JSON.stringify(answerOf(one)))));
  },
  /** One answer, whole; `context` stands in the case's place where it is given. */
  async answer(argument: { index: number; context?: object }) {
    const one = cases[argument.index];
    if (one === undefined) throw new Error('no such case');
    return answerOf(argument.context === undefined ? one : { ...one, context: argument.context });
  },
  /** SHA-256 of the program of each template that converts, by the template's own. */
  async programs() {
    const made: [string, string][] = [];
    for (const template of new Set(cases.map((one) => one.template))) {
      const program = programOf(template);
      if (program instanceof Uint8Array) made.push([await digest(template), await digest(program)]);
    }
    return made;
  },
};

async function check(name: string, argument: never): Promise<string> {
  try {
    const run = checks[name];
    if (run === undefined) throw new Error(`no check ${name}`);
    return JSON.stringify({ value: (await run(argument)) ?? null });
  } catch (fault) {
    return JSON.stringify({ fault: fault instanceof SlmError ? fault.facts() : { code: 'page', message: String(fault) } });
  }
}

(globalThis as unknown as { check: typeof check }).check = check;
