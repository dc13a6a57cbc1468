/** The worker of this page: the package's engine, with the programs' bytes from a message. */
import { browserEngine } from '../../src/platform.js';
import type { Programs } from './workers.js';
import type { ToWorker } from '../../src/protocol.js';

let start: (programs: Programs) => void = () => undefined;
const programs = new Promise<Programs>((resolve) => {
  start = resolve;
});
const engine = browserEngine(async (name) => {
  const bytes = (await programs).get(name);
  if (bytes === undefined) throw new Error(`this worker was given no ${name}.wasm`);
  return bytes;
});

globalThis.onmessage = (event: MessageEvent<ToWorker | { programs: Programs }>) => {
  if ('programs' in event.data) start(event.data.programs);
  else engine.receive(event.data);
};
