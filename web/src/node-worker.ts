/** Entry of Node's worker. */
import { readFile } from 'node:fs/promises';
import { parentPort } from 'node:worker_threads';

import { Engine } from './engine.js';
import { detectFeatures } from './features.js';
import type { ToWorker } from './protocol.js';

const port = parentPort;
if (port === null) throw new Error('node-worker.js is started as a worker');

const engine = new Engine({
  readModule: (name) => readFile(new URL(`./${name}.wasm`, import.meta.url)),
  storage: () => Promise.resolve('Node has no private file system'),
  engine: () => ({
    name: 'node',
    version: process.versions.node,
    javascript: 'V8',
    userAgent: `node ${process.versions.node}, v8 ${process.versions.v8}`,
    features: detectFeatures(false),
  }),
  subtle: globalThis.crypto.subtle,
  post: (message, transfer) => {
    port.postMessage(message, transfer);
  },
});
port.on('message', (message: ToWorker) => {
  engine.receive(message);
});
