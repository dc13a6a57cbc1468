/** What a browser's worker gives the engine; the program's bytes come from whoever starts it. */
import { Engine } from './engine.js';
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

export function browserEngine(readModule: () => Promise<Uint8Array>): Engine {
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
