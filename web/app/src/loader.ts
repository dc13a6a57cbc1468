/**
 * The one document of the page that has the network. It fetches what it is asked for and hands the bytes over; it runs no
 * model and reads no byte of them.
 */
import { hostError, SlmError } from '../../src/errors.js';
import { serveSource } from '../../src/remote.js';
import { openSource } from '../../src/source.js';
import type { FileAnswer, LoaderRequest } from './fetching.js';

async function readAll(url: string): Promise<Uint8Array> {
  const source = openSource({ kind: 'url', url });
  const stream = await source.open(0, new AbortController().signal);
  const pieces: Uint8Array[] = [];
  for (let piece = await stream.read(); piece !== undefined; piece = await stream.read()) pieces.push(piece);
  if (source.hint !== '') throw hostError('IO', `${url} is not the file that was expected${source.hint}`);
  return new Uint8Array(await new Blob(pieces as BlobPart[]).arrayBuffer());
}

function answer(request: LoaderRequest, port: MessagePort): void {
  const { url } = request;
  if (request.type === 'source') {
    serveSource(openSource({ kind: 'url', url }), port);
    return;
  }
  readAll(url)
    .then((bytes): FileAnswer => ({ bytes }))
    .catch((fault: unknown): FileAnswer => ({ error: (fault instanceof SlmError ? fault : hostError('IO', String(fault))).facts() }))
    .then((message) => {
      port.postMessage(message, 'bytes' in message ? [message.bytes.buffer as ArrayBuffer] : []);
    })
    .catch(() => undefined);
}

window.onmessage = (event: MessageEvent<LoaderRequest>) => {
  const [port] = event.ports;
  if (event.source === window.parent && event.origin === window.location.origin && port !== undefined) answer(event.data, port);
};
window.parent.postMessage('loader-ready', window.location.origin);
