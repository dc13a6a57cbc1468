/** Entry of the browser's worker. */
import type { ModuleName } from './engine.js';
import { hostError } from './errors.js';
import { browserEngine } from './platform.js';
import type { ToWorker } from './protocol.js';

// Bundlers find the files by this form of words.
const urls: Record<ModuleName, URL> = {
  slm: new URL('./slm.wasm', import.meta.url),
  'slm-text': new URL('./slm-text.wasm', import.meta.url),
  'slm-evidence': new URL('./slm-evidence.wasm', import.meta.url),
};

async function readModule(name: ModuleName): Promise<Response> {
  const url = urls[name];
  const response = await fetch(url).catch((fault: unknown) => {
    throw hostError('IO', `the program ${url.pathname} cannot be fetched (${String(fault)})`, { retryable: true });
  });
  if (!response.ok) throw hostError('IO', `the program ${url.pathname}: status ${response.status}`, { retryable: true });
  return response;
}

const engine = browserEngine(readModule);
globalThis.onmessage = (event: MessageEvent<ToWorker>) => {
  engine.receive(event.data);
};
