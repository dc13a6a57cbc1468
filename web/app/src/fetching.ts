/** Bytes from the loader document; this one has no network. */
import type { RemoteModel } from '../../src/client.js';
import { type ErrorFacts, SlmError } from '../../src/errors.js';
import { h } from './dom.js';

export interface LoaderRequest {
  type: 'source' | 'file';
  url: string;
}
export type FileAnswer = { bytes: Uint8Array } | { error: ErrorFacts };

const ready = new Promise<Window>((resolve) => {
  const frame = h('iframe', { id: 'loader', title: 'Loader: fetches files for this page', src: './loader.html', hidden: true });
  window.addEventListener('message', (event) => {
    const loader = frame.contentWindow;
    if (loader !== null && event.source === loader && event.data === 'loader-ready') resolve(loader);
  });
  document.body.append(frame);
});

async function ask(request: LoaderRequest): Promise<MessagePort> {
  const loader = await ready;
  const { port1, port2 } = new MessageChannel();
  loader.postMessage(request, window.location.origin, [port2]);
  return port1;
}

const absolute = (url: string): string => new URL(url, document.baseURI).href;

/** A model behind an address, read piece by piece. */
export async function remoteModel(url: string): Promise<RemoteModel> {
  return { port: await ask({ type: 'source', url: absolute(url) }), name: absolute(url) };
}

/** A whole file. */
export async function fetchFile(url: string): Promise<Uint8Array> {
  const port = await ask({ type: 'file', url: absolute(url) });
  const answer = await new Promise<FileAnswer>((resolve) => {
    port.onmessage = (event: MessageEvent<FileAnswer>) => {
      resolve(event.data);
    };
  });
  port.close();
  if ('error' in answer) throw new SlmError(answer.error);
  return answer.bytes;
}
