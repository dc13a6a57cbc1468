// Loading: every source, every chunk hashed, and every way in which a network fails (section 3 of the standard, streamed
// verification).
import assert from 'node:assert/strict';
import { after, test } from 'node:test';

import { loadModel, type Model, type Progress, SlmError } from '../src/node.js';
import { readArtifact } from './support.js';
import { type Answer, cutAfter, file, serve, stallAfter, withoutRanges } from './server.js';

const bytes = readArtifact('slm-demo');
const MIB = 1 << 20;
const routes = new Map<string, Answer>();
const server = await serve(routes);
after(() => server.close());

const head = Number(new DataView(bytes.buffer).getBigUint64(56, true));
const flipped = (at: number): Uint8Array => {
  const copy = bytes.slice();
  copy[at] = (copy[at] ?? 0) ^ 1;
  return copy;
};

function url(path: string, answer: Answer): string {
  routes.set(path, answer);
  return server.origin + path;
}

async function loads(source: Parameters<typeof loadModel>[0]): Promise<Progress[]> {
  const progress: Progress[] = [];
  const model: Model = await loadModel(source, { onProgress: (p) => progress.push(p) });
  const { ids } = await model.tokenize('Hello');
  assert.ok(ids.length > 0);
  model.close();
  assert.equal(progress.at(-1)?.loaded, bytes.length);
  return progress;
}

async function refuses(source: Parameters<typeof loadModel>[0], code: string, text: RegExp, field?: string): Promise<SlmError> {
  let caught: unknown;
  await assert.rejects(loadModel(source), (fault: unknown) => {
    caught = fault;
    return true;
  });
  assert.ok(caught instanceof SlmError, String(caught));
  assert.equal(caught.code, code, caught.message);
  assert.match(caught.message, text);
  if (field !== undefined) assert.equal(caught.field, field);
  return caught;
}

test('from a URL, a Blob, an ArrayBuffer', async () => {
  const progress = await loads(url('/whole.slm', file(bytes)));
  assert.ok(progress.length >= 3);
  await loads(new Blob([bytes as Uint8Array<ArrayBuffer>]));
  await loads(bytes.slice().buffer);
});

test('a wrong chunk stops at once and is named', async () => {
  const fault = await refuses(flipped(head + MIB + 5), 'SLM-CHUNK', /chunk 1, bytes \d+ to \d+, differs/, 'chunk 1');
  assert.equal(fault.byteOffset, head + MIB);
  // The rest is not waited for: the server never sends it.
  const bad = flipped(head + 9);
  await refuses(url('/flipped.slm', stallAfter(head + MIB + 1000, bad)), 'SLM-CHUNK', /chunk 0/, 'chunk 0');
  await refuses(flipped(bytes.length - 1), 'SLM-CHUNK', /chunk/, `chunk ${Math.ceil((bytes.length - head) / MIB) - 1}`);
  await refuses(flipped(200), 'SLM-MANIFEST', /manifest/);
  await refuses(flipped(20), 'SLM-SIZE', /./);
  await refuses(flipped(100), 'SLM-CRC', /./);
});

test('a truncated file is refused with the chunk in which it ends', async () => {
  const short = bytes.subarray(0, head + MIB + 77);
  await refuses(short, 'SLM-SIZE', /chunk 1/, 'chunk 1');
  await refuses(url('/short.slm', file(short)), 'SLM-SIZE', /chunk 1/, 'chunk 1');
  await refuses(bytes.subarray(0, 100), 'SLM-SIZE', /./);
  await refuses(new Uint8Array(0), 'SLM-MAGIC', /./);
  const long = new Uint8Array(bytes.length + 1);
  long.set(bytes);
  await refuses(long, 'SLM-SIZE', /./);
});

test('a broken connection goes on where it stopped', async () => {
  await loads(url('/cut.slm', cutAfter(head + MIB + 100, bytes, file(bytes))));
  const ranges = server.seen.get('/cut.slm');
  assert.equal(ranges?.length, 2);
  assert.match(ranges?.[1] ?? '', /^bytes=\d+-$/);
  assert.ok(Number(/\d+/.exec(ranges?.[1] ?? '')?.[0]) > head);
  // A server that ignores the range sends everything again.
  await loads(url('/cut-whole.slm', cutAfter(head + MIB + 100, bytes, withoutRanges(bytes))));
  assert.equal(server.seen.get('/cut-whole.slm')?.length, 2);
});

test('what is no model says what came instead', async () => {
  const missing = await refuses(`${server.origin}/missing.slm`, 'NOT-FOUND', /404/);
  assert.equal(missing.retryable, false);
  const page = new TextEncoder().encode(`<!doctype html>${' '.repeat(400)}`);
  await refuses(url('/page', file(page, 'text/html')), 'SLM-MAGIC', /text\/html.*a page, not a model file/);
  routes.set('/moved', (_request, response) => {
    response.writeHead(302, { Location: '/page' });
    response.end();
  });
  await refuses(`${server.origin}/moved`, 'SLM-MAGIC', /redirect to .*\/page/);
  await loads(url('/typed.slm', file(bytes, 'text/plain'))); // the bytes decide, not the type
  routes.set('/broken', (_request, response) => {
    response.writeHead(503);
    response.end();
  });
  const broken = await refuses(`${server.origin}/broken`, 'IO', /503/);
  assert.equal(broken.retryable, true);
  const closed = await refuses('http://127.0.0.1:9/x.slm', 'IO', /cannot be fetched/);
  assert.equal(closed.retryable, true);
});

test('a load can be aborted', async () => {
  const control = new AbortController();
  const loading = loadModel(url('/stall.slm', stallAfter(head + MIB, bytes)), { signal: control.signal });
  setTimeout(() => {
    control.abort();
  }, 200);
  await assert.rejects(loading, { name: 'AbortError' });
  await assert.rejects(loadModel(bytes, { signal: AbortSignal.abort() }), { name: 'AbortError' });
});

test('a closed model says so', async () => {
  const model = await loadModel(bytes);
  const pending = model.generate({ ids: [1] }, { maxNewTokens: 200, stopAtEos: false });
  await pending.prompt;
  model.close();
  await assert.rejects(pending.answer, /closed/);
  await assert.rejects(model.tokenize('x'), /closed/);
});
