/** The worker of this page: the package's engine, with the program's bytes from a message. */
import { browserEngine } from '../../src/platform.js';
import type { ToWorker } from '../../src/protocol.js';

let start: (program: Uint8Array) => void = () => undefined;
const program = new Promise<Uint8Array>((resolve) => {
  start = resolve;
});
const engine = browserEngine(() => program);

globalThis.onmessage = (event: MessageEvent<ToWorker | { program: Uint8Array }>) => {
  if ('program' in event.data) start(event.data.program);
  else engine.receive(event.data);
};
