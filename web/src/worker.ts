/** Entry of the browser's worker. */
import { Engine } from './engine.js';
import { hostError } from './errors.js';
import { describeBrowser, detectFeatures } from './features.js';
import type { ToWorker } from './protocol.js';

interface WorkerScope {
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
  postMessage(message: unknown, transfer: ArrayBuffer[]): void;
}
const scope = globalThis as unknown as WorkerScope;

async function readModule(): Promise<Uint8Array> {
  const url = new URL('./slm.wasm', import.meta.url);
  const response = await fetch(url).catch((fault: unknown) => {
    throw hostError('IO', `the program ${url.pathname} cannot be fetched (${String(fault)})`, { retryable: true });
  });
  if (!response.ok) throw hostError('IO', `the program ${url.pathname}: status ${response.status}`, { retryable: true });
  return new Uint8Array(await response.arrayBuffer());
}

const hasStorage = typeof navigator.storage?.getDirectory === 'function';

async function storage(): Promise<FileSystemDirectoryHandle | string> {
  if (!globalThis.isSecureContext) return 'this page is not a secure context (https, or this machine)';
  if (!hasStorage) return 'this browser has no private file system';
  try {
    return await navigator.storage.getDirectory();
  } catch (fault) {
    return `this browser refuses its private file system (${String(fault)})`;
  }
}

const engine = new Engine({
  readModule,
  storage,
  engine: () => ({ ...describeBrowser(navigator.userAgent), features: detectFeatures(hasStorage) }),
  subtle: globalThis.crypto?.subtle,
  post: (message, transfer) => {
    scope.postMessage(message, transfer);
  },
});
scope.onmessage = (event) => {
  engine.receive(event.data);
};
