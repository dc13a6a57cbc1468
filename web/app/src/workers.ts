/** Workers of this page: from a blob, so that they inherit its policy and have no network. */
import code from 'virtual:worker-code';

import { portOf } from '../../src/browser-port.js';
import { type Evidence, evidenceThrough, loadThrough, type LoadModelOptions, type Model, type ModelSource, type Port } from '../../src/client.js';
import type { ModuleName } from '../../src/engine.js';
import { fetchFile } from './fetching.js';

const codeUrl = URL.createObjectURL(new Blob([code], { type: 'text/javascript' }));
const rules = { createScriptURL: (): string => codeUrl };
const policy = typeof trustedTypes === 'undefined' ? rules : trustedTypes.createPolicy('slm-worker', rules);

/** What a worker is given before anything else. */
export type Programs = Map<ModuleName, Uint8Array>;

const programs = new Map<ModuleName, Promise<Uint8Array>>();

/** A module's bytes: fetched once, and again where that failed. */
function readProgram(name: ModuleName): Promise<Uint8Array> {
  const known = programs.get(name);
  if (known !== undefined) return known;
  const fetched = fetchFile(`./${name}.wasm`).catch((fault: unknown) => {
    programs.delete(name);
    throw fault;
  });
  programs.set(name, fetched);
  return fetched;
}

async function startWorker(name: string, needs: ModuleName[]): Promise<Port> {
  const given: Programs = new Map(await Promise.all(needs.map(async (need) => [need, await readProgram(need)] as const)));
  const worker = new Worker(policy.createScriptURL(''), { name });
  worker.postMessage({ programs: given });
  return portOf(worker);
}

export async function openModel(source: ModelSource, options: LoadModelOptions): Promise<Model> {
  return loadThrough(await startWorker('slm', ['slm', 'slm-text']), source, document.baseURI, options);
}

export async function startEvidence(): Promise<Evidence> {
  return evidenceThrough(await startWorker('slm-evidence', ['slm-evidence']));
}
