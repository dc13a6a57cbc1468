/** Workers of this page: from a blob, so that they inherit its policy and have no network. */
import code from 'virtual:worker-code';

import { portOf } from '../../src/browser-port.js';
import { type Evidence, evidenceThrough, loadThrough, type LoadModelOptions, type Model, type ModelSource, type Port } from '../../src/client.js';
import { fetchFile } from './fetching.js';

const codeUrl = URL.createObjectURL(new Blob([code], { type: 'text/javascript' }));
const rules = { createScriptURL: (): string => codeUrl };
const policy = typeof trustedTypes === 'undefined' ? rules : trustedTypes.createPolicy('slm-worker', rules);

let program: Promise<Uint8Array> | undefined;

/** The module's bytes: fetched once, and again where that failed. */
function readProgram(): Promise<Uint8Array> {
  program ??= fetchFile('./slm.wasm').catch((fault: unknown) => {
    program = undefined;
    throw fault;
  });
  return program;
}

async function startWorker(): Promise<Port> {
  const bytes = await readProgram();
  const worker = new Worker(policy.createScriptURL(''), { name: 'slm' });
  worker.postMessage({ program: bytes });
  return portOf(worker);
}

export async function openModel(source: ModelSource, options: LoadModelOptions): Promise<Model> {
  return loadThrough(await startWorker(), source, document.baseURI, options);
}

export async function startEvidence(): Promise<Evidence> {
  return evidenceThrough(await startWorker());
}
