/** What a browser's worker gives the engine; the program's bytes come from whoever starts it. */
import { Engine, type ModuleName } from './engine.js';
import { describeBrowser, detectFeatures } from './features.js';

const scope = globalThis as unknown as { postMessage(message: unknown, transfer: ArrayBuffer[]): void };

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

/**
 * Holds a lock while this worker lives and tells the page its name: a worker that is killed says nothing, but its
 * locks are free then. Without locks (no secure context) only errors are noticed.
 */
async function announceLife(): Promise<void> {
  const name = `slm-worker-${crypto.randomUUID()}`;
  await navigator.locks.request(name, () => {
    scope.postMessage({ life: name }, []);
    return new Promise(() => undefined);
  });
}

export function browserEngine(readModule: (name: ModuleName) => Promise<Uint8Array | Response>): Engine {
  if (navigator.locks !== undefined) void announceLife();
  return new Engine({
    readModule,
    storage,
    engine: () => ({ ...describeBrowser(navigator.userAgent), features: detectFeatures(hasStorage) }),
    subtle: globalThis.crypto?.subtle,
    post: (message, transfer) => {
      scope.postMessage(message, transfer);
    },
  });
}
