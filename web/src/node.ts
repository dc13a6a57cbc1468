/** slm-web in Node: the same module, in a worker thread. */
import { type TransferListItem, Worker } from 'node:worker_threads';

import { type Evidence, evidenceThrough, loadThrough, type LoadModelOptions, type Model, type ModelSource, type Port } from './client.js';

export * from './public.js';

/** Loads a model in a worker thread of its own. Rejects with an SlmError, or with an AbortError. */
export function loadModel(source: ModelSource, options: LoadModelOptions = {}): Promise<Model> {
  return loadThrough(startWorker(), source, 'file:///', options);
}

/** For comparing containers and verifying receipts, without a model. */
export function openEvidence(): Evidence {
  return evidenceThrough(startWorker());
}

function startWorker(): Port {
  const worker = new Worker(new URL('./node-worker.js', import.meta.url));
  return {
    post: (message, transfer = []) => {
      worker.postMessage(message, transfer as unknown as TransferListItem[]);
    },
    onMessage: (handler) => {
      worker.on('message', handler);
    },
    onDeath: (handler) => {
      worker.on('error', (fault) => {
        handler(fault.message);
      });
      worker.on('exit', (code) => {
        handler(`exit ${code}`);
      });
    },
    close: () => {
      void worker.terminate();
    },
  };
}
