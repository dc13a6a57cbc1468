/**
 * slm-web: runs `.slm` models in a browser, with the bits of the native scalar reference.
 *
 *     const model = await loadModel('/models/slm-demo.slm', { onProgress: (p) => show(p.loaded / p.total) });
 *     for await (const token of model.generate({ messages: [{ role: 'user', content: 'Hello' }] })) out(token.text);
 */
import { portOf } from './browser-port.js';
import { type Evidence, evidenceThrough, loadThrough, type LoadModelOptions, type Model, type ModelSource, type Port } from './client.js';

export * from './public.js';

/** Loads a model in a worker of its own. Rejects with an SlmError that says what to do, or with an AbortError. */
export function loadModel(source: ModelSource, options: LoadModelOptions = {}): Promise<Model> {
  return loadThrough(startWorker(), source, location.href, options);
}

/** For comparing containers and verifying receipts, without a model. */
export function openEvidence(): Evidence {
  return evidenceThrough(startWorker());
}

function startWorker(): Port {
  return portOf(new Worker(new URL('./worker.js', import.meta.url), { type: 'module', name: 'slm' }));
}
