/** Entry of the browser's worker. */
import { hostError } from './errors.js';
import { browserEngine } from './platform.js';
import type { ToWorker } from './protocol.js';

async function readModule(): Promise<Uint8Array> {
  const url = new URL('./slm.wasm', import.meta.url);
  const response = await fetch(url).catch((fault: unknown) => {
    throw hostError('IO', `the program ${url.pathname} cannot be fetched (${String(fault)})`, { retryable: true });
  });
  if (!response.ok) throw hostError('IO', `the program ${url.pathname}: status ${response.status}`, { retryable: true });
  return new Uint8Array(await response.arrayBuffer());
}

const engine = browserEngine(readModule);
globalThis.onmessage = (event: MessageEvent<ToWorker>) => {
  engine.receive(event.data);
};
