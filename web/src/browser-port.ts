/** A browser's worker as the client sees it. */
import type { Port } from './client.js';
import type { FromWorker } from './protocol.js';

export function portOf(worker: Worker): Port {
  let died: (reason: string) => void = () => undefined;
  return {
    post: (message, transfer = []) => {
      worker.postMessage(message, transfer);
    },
    onMessage: (handler) => {
      worker.onmessage = ({ data }: MessageEvent<FromWorker | { life: string }>) => {
        if (!('life' in data)) handler(data);
        // Ours when the worker no longer holds it.
        else void navigator.locks.request(data.life, () => { died('the browser stopped it'); });
      };
    },
    onDeath: (handler) => {
      died = handler;
      worker.onerror = (event) => {
        handler(event.message ?? 'it could not be started');
      };
    },
    close: () => {
      worker.terminate();
    },
  };
}
