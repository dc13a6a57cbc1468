/** A browser's worker as the client sees it. */
import type { Port } from './client.js';
import type { FromWorker } from './protocol.js';

export function portOf(worker: Worker): Port {
  return {
    post: (message, transfer = []) => {
      worker.postMessage(message, transfer);
    },
    onMessage: (handler) => {
      worker.onmessage = (event: MessageEvent<FromWorker>) => {
        handler(event.data);
      };
    },
    onDeath: (handler) => {
      worker.onerror = (event) => {
        handler(event.message ?? 'it could not be started');
      };
    },
    close: () => {
      worker.terminate();
    },
  };
}
