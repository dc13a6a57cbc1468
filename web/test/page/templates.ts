// Converts and renders templates in the page under test.
import { Halves } from '../../src/halves.js';
import { loadArtifact } from '../../src/load.js';
import { SlmModule } from '../../src/module.js';
import { openSource } from '../../src/source.js';
import { type Case, Renderer } from './answers.js';
import { expose } from './expose.js';

const bytesOf = async (url: string): Promise<Uint8Array<ArrayBuffer>> => new Uint8Array(await (await fetch(url)).arrayBuffer());
const instantiate = async (name: string): Promise<SlmModule> => SlmModule.instantiate(await WebAssembly.compile(await bytesOf(`/src/${name}.wasm`)));

async function digest(data: string | Uint8Array): Promise<string> {
  const bytes = new Uint8Array(typeof data === 'string' ? new TextEncoder().encode(data) : data);
  return Array.from(new Uint8Array(await crypto.subtle.digest('SHA-256', bytes)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

let cases: Case[] = [];
let renderer: Renderer | undefined;

function need(): Renderer {
  if (renderer === undefined) throw new Error('not prepared');
  return renderer;
}

const checks: Record<string, (argument: never) => Promise<unknown>> = {
  async prepare(argument: { cases: string; artifact: string }) {
    cases = (await (await fetch(argument.cases)).json()) as Case[];
    const converter = await instantiate('slm-evidence');
    const core = await instantiate('slm');
    const { artifact } = await loadArtifact(core, openSource({ kind: 'bytes', bytes: await bytesOf(argument.artifact) }), {
      signal: new AbortController().signal,
      onProgress: () => undefined,
      storage: 'none in a test',
      subtle: crypto.subtle,
      retryDelay: 1,
    });
    renderer = new Renderer(converter, new Halves(core, await instantiate('slm-text'), artifact));
    return cases.length;
  },
  /** SHA-256 of each answer's JSON. */
  async answers() {
    return Promise.all(cases.map((one) => digest(JSON.stringify(need().answerOf(one)))));
  },
  /** One answer, whole; `context` stands in the case's place where it is given. */
  async answer(argument: { index: number; context?: object }) {
    const one = cases[argument.index];
    if (one === undefined) throw new Error('no such case');
    return need().answerOf(argument.context === undefined ? one : { ...one, context: argument.context });
  },
  /** SHA-256 of the program of each template that converts, by the template's own. */
  async programs() {
    const made: [string, string][] = [];
    for (const template of new Set(cases.map((one) => one.template))) {
      const program = need().programOf(template);
      if (program instanceof Uint8Array) made.push([await digest(template), await digest(program)]);
    }
    return made;
  },
};

expose(checks);
