// A file server for tests: isolation headers, ranges, and the faults that a network has.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export type Answer = (request: IncomingMessage, response: ServerResponse, count: number) => void;

export interface TestServer {
  /** "http://127.0.0.1:PORT". */
  readonly origin: string;
  /** Requests of a path so far, with the Range header of each. */
  readonly seen: Map<string, (string | undefined)[]>;
  close(): Promise<void>;
}

/** Serves what `routes` says, with isolation headers unless told otherwise; a path that is not there is 404. */
export async function serve(routes: Map<string, Answer>, { isolated = true } = {}): Promise<TestServer> {
  const seen = new Map<string, (string | undefined)[]>();
  const server: Server = createServer((request, response) => {
    const path = new URL(request.url ?? '/', 'http://127.0.0.1').pathname;
    const earlier = seen.get(path) ?? [];
    seen.set(path, [...earlier, request.headers.range]);
    if (isolated) {
      response.setHeader('Cross-Origin-Opener-Policy', 'same-origin');
      response.setHeader('Cross-Origin-Embedder-Policy', 'require-corp');
    }
    response.setHeader('Cache-Control', 'no-store');
    const answer = routes.get(path);
    if (answer !== undefined) return answer(request, response, earlier.length);
    response.writeHead(404, { 'Content-Type': 'text/html' });
    response.end('<!doctype html>not here');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => {
          resolve();
        });
      }),
  };
}

/** A file with ranges, as servers send it. */
export function file(bytes: Uint8Array, type = 'application/octet-stream'): Answer {
  return (request, response) => {
    const range = /^bytes=(\d+)-$/.exec(request.headers.range ?? '');
    const begin = range === null ? 0 : Number(range[1]);
    if (begin >= bytes.length && range !== null) {
      response.writeHead(416, { 'Content-Range': `bytes */${bytes.length}` });
      return void response.end();
    }
    const headers: Record<string, string | number> = { 'Content-Type': type, 'Content-Length': bytes.length - begin };
    if (range !== null) headers['Content-Range'] = `bytes ${begin}-${bytes.length - 1}/${bytes.length}`;
    response.writeHead(range === null ? 200 : 206, headers);
    response.end(bytes.subarray(begin));
  };
}

/** The whole file whatever range is asked for. */
export function withoutRanges(bytes: Uint8Array): Answer {
  return (_request, response) => {
    response.writeHead(200, { 'Content-Type': 'application/octet-stream', 'Content-Length': bytes.length });
    response.end(bytes);
  };
}

/** The first request is cut after `size` bytes; later ones are answered by `then`. */
export function cutAfter(size: number, bytes: Uint8Array, then: Answer): Answer {
  return (request, response, count) => {
    if (count > 0) return then(request, response, count);
    response.writeHead(200, { 'Content-Type': 'application/octet-stream', 'Content-Length': bytes.length });
    response.write(bytes.subarray(0, size), () => setTimeout(() => response.destroy(), 500));
  };
}

/** Sends `size` bytes and then nothing. */
export function stallAfter(size: number, bytes: Uint8Array): Answer {
  return (_request, response) => {
    response.writeHead(200, { 'Content-Type': 'application/octet-stream', 'Content-Length': bytes.length });
    response.write(bytes.subarray(0, size));
  };
}
