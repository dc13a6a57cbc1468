// The same checks in every engine, from a page with cross-origin isolation (BKD-02). BROWSERS names the engines.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { extname, join, normalize } from 'node:path';
import { after, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import type { Identity } from '../src/node.js';
import { DRIVERS, type Page } from './drivers.js';
import { withFileSize } from './header.js';
import { type Answer, cutAfter, file, serve, stallAfter } from './server.js';
import { CASES as SHORT, countSubnormals, makeSubnormal, MIN_COUNT, VARIANTS } from './subnormals.js';
import { artifactPath, MODELS, partsOf, readArtifact, ROOT, slm } from './support.js';

const BUILT = fileURLToPath(new URL('../', import.meta.url));
const OUT = join(ROOT, 'build/web');
const TYPES: Record<string, string> = { '.js': 'text/javascript', '.html': 'text/html', '.wasm': 'application/wasm' };
const IDS = [1, 48, 85, 122, 159, 196, 233, 270, 307, 344, 381, 418, 455, 492, 20, 57, 94, 131];
const SAMPLINGS: { json: object; api: object }[] = [
  { json: {}, api: {} },
  { json: { temperature: 0.8, top_k: 40, top_p: 0.95, seed: 8 }, api: { temperature: 0.8, topK: 40, topP: 0.95, seed: 8 } },
];

/** Static files of web/build, and the models. */
function filesOf(): Map<string, Answer> {
  const routes = new Map<string, Answer>();
  const lookup = routes.get.bind(routes);
  routes.get = (path) => {
    const known = lookup(path);
    if (known !== undefined) return known;
    const type = TYPES[extname(path)];
    const name = normalize(path);
    if (type === undefined) return undefined;
    const from = name === '/test/page/index.html' ? join(ROOT, 'web', name) : join(BUILT, name);
    return file(new Uint8Array(readFileSync(from)), type);
  };
  return routes;
}

const routes = filesOf();
const server = await serve(routes);
after(() => server.close());
const bytes = readArtifact('slm-demo');
for (const name of ['slm-demo', ...MODELS]) routes.set(`/${name}.slm`, file(readArtifact(name)));
mkdirSync(OUT, { recursive: true });
const head = Number(new DataView(bytes.buffer).getBigUint64(56, true));
const url = (path: string): string => server.origin + path;

// A store with each model's artifact node, into which every engine's observations go (BKD-02).
const STORE = join(OUT, 'store');
const SOURCES = JSON.parse(process.env['SLM_SOURCES'] ?? '{}') as Record<string, string>;
const BUILD_INFO = JSON.parse(readFileSync(join(ROOT, 'build/wasm/src/capi/build_info.json'), 'utf8')) as unknown;
rmSync(STORE, { recursive: true, force: true });
for (const name of MODELS) {
  slm(['--store', STORE, 'convert', SOURCES[name] ?? '', '-o', join(OUT, `${name}.slm`)]);
  assert.ok(readFileSync(join(OUT, `${name}.slm`)).equals(readFileSync(artifactPath(name))));
}

interface LoadResult {
  identity: Identity;
  cache: { state: string; reason?: string };
  loadMs: number;
  firstTokenMs: number;
}
interface GenerateResult {
  tokens: number[];
  kvSha256: string;
  bytes: string;
  streamed: number[];
  longest?: number;
}

// Models whose arithmetic runs below 2^-126 (OPS-04), and what native scalar observes of them.
const SUBNORMAL = join(OUT, 'subnormal');
rmSync(SUBNORMAL, { recursive: true, force: true });
mkdirSync(SUBNORMAL);
writeFileSync(join(SUBNORMAL, 'cases.jsonl'), SHORT);
const subnormal = Object.entries(VARIANTS).map(([name, { observations }]) => {
  const path = makeSubnormal(name, SUBNORMAL);
  routes.set(`/subnormal-${name}.slm`, file(new Uint8Array(readFileSync(path))));
  const native = join(SUBNORMAL, `${name}.golden`);
  slm(['observe', path, '--cases', join(SUBNORMAL, 'cases.jsonl'), '-o', native]);
  const expected = partsOf(new Uint8Array(readFileSync(native))).blobs;
  assert.ok(countSubnormals(expected) >= MIN_COUNT * observations.length);
  return { name, expected };
});

/** Of slm-demo, by backend. */
const observations = new Map<string, string>();

for (const engine of (process.env['BROWSERS'] ?? 'chromium,firefox,webkitgtk').split(',')) {
  const start = DRIVERS[engine];
  if (start === undefined) throw new Error(`no driver for ${engine}`);
  const page: Page = await start();
  await page.open(url('/test/page/index.html'));
  after(() => page.close());
  const load = async (path: string): Promise<LoadResult> => (await page.check('load', url(path))) as LoadResult;
  const refused = async (path: string): Promise<{ code: string; message: string; field?: string }> => {
    let caught: unknown;
    await assert.rejects(load(path), (fault: unknown) => {
      caught = fault;
      return true;
    });
    return caught as { code: string; message: string; field?: string };
  };

  describe(engine, () => {
    let storage = false;

    test('says what it is', async () => {
      const { identity, cache } = await load('/slm-demo.slm');
      assert.equal(identity.engine.name, engine);
      assert.equal(identity.engine.features.crossOriginIsolated, true);
      assert.equal(identity.backend.name, `wasm-scalar@${engine}`);
      storage = identity.engine.features.privateFileSystem;
      if (storage) assert.equal(cache.state, 'stored');
      else assert.deepEqual(cache, { state: 'none', reason: 'this browser has no private file system' });
      mkdirSync(join(OUT, engine), { recursive: true });
      writeFileSync(join(OUT, engine, 'identity.json'), `${JSON.stringify(identity, null, 1)}\n`);
    });

    for (const name of MODELS) {
      test(`${name}: bits of native scalar`, async () => {
        const { identity } = await load(`/${name}.slm`);
        const casesPath = join(ROOT, 'vectors', name, 'cases.jsonl');
        const nativePath = join(OUT, `${name}.native.golden`);
        slm(['observe', artifactPath(name), '--cases', casesPath, '-o', nativePath]);
        const expected = partsOf(new Uint8Array(readFileSync(nativePath)));
        const cases = readFileSync(casesPath, 'utf8');
        for (const prefillChunk of [0, 1, 3, 16]) {
          const container = Buffer.from((await page.check('observe', { cases, prefillChunk })) as string, 'base64');
          const mine = partsOf(container, [[`wasm-scalar@${engine}`, 'native-scalar'], ['wasm-scalar', 'native-scalar']]);
          assert.ok(mine.blobs.equals(expected.blobs), `arrays differ in chunks of ${prefillChunk}`);
          assert.equal(mine.envelope, expected.envelope);
          if (prefillChunk !== 0) continue;
          // The node of this engine's observations; the comparison reads nothing but the two containers.
          const kept = join(OUT, engine, `${name}.golden`);
          const facts = join(OUT, engine, `${name}.facts.json`);
          writeFileSync(kept, container);
          writeFileSync(facts, JSON.stringify({ build: BUILD_INFO, identity }));
          const record = ['observe', artifactPath(name), '--cases', casesPath, '--record', kept, '--made-by', facts];
          const { observation } = JSON.parse(slm(['--store', STORE, '--json', ...record])) as { observation: string };
          if (name === 'slm-demo') observations.set(`wasm-scalar@${engine}`, observation);
          const compared = JSON.parse(slm(['--store', STORE, '--json', 'compare', nativePath, observation])) as {
            policy: { name: string };
            first: unknown;
          };
          assert.deepEqual([compared.policy.name, compared.first], ['bit-equal.exact-v1', null]);
        }
        for (const sampling of SAMPLINGS) {
          const record = { ids: IDS, max_new_tokens: 200, stop_at_eos: false, kv: true, sampling: sampling.json };
          const native = JSON.parse(slm(['run', artifactPath(name), '--batch'], `${JSON.stringify(record)}\n`)) as Record<string, unknown>;
          for (const prefillChunk of [0, 1, 3, 16]) {
            const result = (await page.check('generate', { ids: IDS, sampling: sampling.api, prefillChunk })) as GenerateResult;
            assert.equal(result.tokens.length, 200);
            assert.deepEqual(result.tokens, native['tokens']);
            assert.deepEqual(result.streamed, native['tokens']);
            assert.equal(result.kvSha256, native['kv_sha256']);
            assert.equal(result.bytes, native['bytes']);
            assert.ok((result.longest ?? 0) < 50, `the page's thread was held for ${result.longest} ms`);
          }
        }
      });
    }

    test('subnormal numbers are kept: bits of native scalar', async () => {
      for (const { name, expected } of subnormal) {
        await load(`/subnormal-${name}.slm`);
        const container = Buffer.from((await page.check('observe', { cases: SHORT, prefillChunk: 0 })) as string, 'base64');
        assert.ok(partsOf(container, [[`wasm-scalar@${engine}`, 'native-scalar'], ['wasm-scalar', 'native-scalar']]).blobs.equals(expected), name);
      }
    });

    test('U+0000 and characters outside the BMP come back', async () => {
      assert.deepEqual(await page.check('text', null), { back: true });
    });

    test('ill-formed UTF-16 is refused with its index', async () => {
      const { code, index, field } = (await page.check('illFormed', null)) as { code: string; index: number; field: string };
      assert.deepEqual([code, index, field], ['UTF8', 2, 'text']);
    });

    test('a model that does not fit is MEMORY with its sizes', async () => {
      const header = withFileSize(bytes.subarray(0, 192), 2 ** 40);
      const size = Number(new DataView(header.buffer).getBigUint64(16, true));
      routes.set('/huge.slm', (_request, response) => {
        response.writeHead(200, { 'Content-Type': 'application/octet-stream', 'Content-Length': size });
        response.write(header);
      });
      const { code, message } = await refused('/huge.slm');
      assert.equal(code, 'MEMORY');
      assert.match(message, new RegExp(`the artifact has ${size} bytes; memory in use: \\d+ bytes, at most 4294967296`));
    });

    test('a worker that is killed is noticed, and the next one works', async () => {
      const { fault, later, tokens } = (await page.check('killed', url('/slm-demo.slm'))) as {
        fault: { code: string; message: string; retryable?: boolean };
        later: { message: string };
        tokens: number;
      };
      assert.equal(fault.code, 'INTERNAL');
      assert.match(fault.message, /the worker ended \(the browser stopped it\); load the model again/);
      assert.equal(fault.retryable, true);
      assert.equal(later.message, fault.message);
      assert.equal(tokens, 1);
    });

    test('a program that does not come is named at once, and comes the next time', async () => {
      if (storage) await page.check('evict', null);
      routes.set('/stalled.slm', stallAfter(head + 1000, bytes));
      for (const name of ['slm', 'slm-text']) {
        routes.set(`/src/${name}.wasm`, (_request, response) => {
          response.writeHead(503);
          response.end();
        });
        const { code, message } = await refused('/stalled.slm');
        assert.equal(code, 'IO');
        assert.match(message, new RegExp(`the program /src/${name}\\.wasm: status 503`));
        routes.delete(`/src/${name}.wasm`);
      }
      // What is wrong with the model does not wait for a program that it does not need.
      routes.set('/src/slm-text.wasm', () => {}); // never answered
      assert.equal((await refused('/nothing.slm')).code, 'NOT-FOUND');
      routes.delete('/src/slm-text.wasm');
      await load('/slm-demo.slm');
    });

    test('a wrong chunk is named; what is no model says what it is', async () => {
      if (storage) await page.check('evict', null); // what is cached under the same root needs no network
      const bad = bytes.slice();
      bad[head + 9] = (bad[head + 9] ?? 0) ^ 1;
      routes.set('/flipped.slm', stallAfter(head + (1 << 20) + 10, bad));
      const flipped = await refused('/flipped.slm');
      assert.deepEqual([flipped.code, flipped.field], ['SLM-CHUNK', 'chunk 0']);
      routes.set('/short.slm', file(bytes.subarray(0, head + (1 << 20) + 77)));
      const short = await refused('/short.slm');
      assert.deepEqual([short.code, short.field], ['SLM-SIZE', 'chunk 1']);
      assert.equal((await refused('/nothing.slm')).code, 'NOT-FOUND');
      const page200 = await refused('/test/page/index.html');
      assert.match(page200.message, /this is a page/);
    });

    test('a broken connection goes on by a range', async () => {
      routes.set('/cut.slm', cutAfter(head + (1 << 20) + 100, bytes, file(bytes)));
      if (storage) await page.check('evict', null);
      server.seen.delete('/cut.slm');
      await load('/cut.slm');
      assert.match(server.seen.get('/cut.slm')?.at(-1) ?? '', /^bytes=\d+-$/);
    });

    test('the cache: hit, damaged, cut off, evicted, two at once', async () => {
      if (!storage) {
        assert.equal((await load('/slm-demo.slm')).cache.state, 'none');
        return;
      }
      await load('/slm-demo.slm');
      assert.equal((await load('/slm-demo.slm')).cache.state, 'hit');
      await page.check('damageCache', null);
      server.seen.delete('/slm-demo.slm');
      assert.equal((await load('/slm-demo.slm')).cache.state, 'stored');
      assert.ok(Number(/\d+/.exec(server.seen.get('/slm-demo.slm')?.at(-1) ?? '')?.[0]) > head, 'only what was damaged is fetched');
      assert.equal((await load('/slm-demo.slm')).cache.state, 'hit');
      await page.check('cutCache', head + (1 << 20) + 5);
      assert.equal((await load('/slm-demo.slm')).cache.state, 'stored');
      await page.check('evict', null);
      const caches = (await page.check('twoAtOnce', url('/slm-demo.slm'))) as { state: string; reason?: string }[];
      assert.ok(caches.some(({ state }) => state === 'stored'), JSON.stringify(caches));
      assert.ok(caches.every(({ state, reason }) => state !== 'none' || /another tab/.test(reason ?? '')), JSON.stringify(caches));
      const warm = await load('/slm-demo.slm');
      assert.equal(warm.cache.state, 'hit');
      if (page.limitStorage !== undefined) {
        await page.check('evict', null);
        await page.limitStorage(server.origin, 1 << 20);
        assert.deepEqual((await load('/slm-demo.slm')).cache, { state: 'none', reason: "there is no room left in the browser's storage for this model" });
        await page.limitStorage(server.origin, undefined);
        assert.equal((await load('/slm-demo.slm')).cache.state, 'stored');
      }
      console.log(`${engine}: load ${warm.loadMs.toFixed(0)} ms, first token ${warm.firstTokenMs.toFixed(0)} ms, warm cache`);
    });
  });
}

describe('reports', () => {
  const source = SOURCES['slm-demo'] ?? '';
  const vectors = join(ROOT, 'vectors/slm-demo');
  const inStore = (...args: string[]): unknown => JSON.parse(slm(['--store', STORE, '--json', ...args]));
  interface Column {
    backend: string;
    receipt: string | null;
    claims: Record<string, string>;
  }

  test('a promotion has one column per backend, each with its own claims', () => {
    const policy = join(ROOT, 'profiles/tolerance/slm-demo.exact-v1-f32.json');
    const evidence = ['reference', 'source', 'truth'].flatMap((mode) => ['--evidence', join(vectors, `${mode}.golden`)]);
    const { receipt } = inStore('promote', source, '--name', 'unnamed', '--revision', 'unstated', '--cases', join(vectors, 'cases.jsonl'), '--policy', policy, ...evidence) as { receipt: string };
    const report = (runs: string[]): { holds: boolean; backends: Column[] } => {
      const options = runs.flatMap((run) => ['--backend', run]);
      return inStore('report', receipt, ...options, '-o', join(OUT, 'report.html')) as { holds: boolean; backends: Column[] };
    };
    assert.ok(observations.size > 0);
    for (const runs of [[], [...observations.values()]]) {
      const { holds, backends } = report(runs);
      assert.equal(holds, true);
      assert.deepEqual(backends.slice(0, 4).map(({ backend }) => backend), ['native-scalar', 'wasm-scalar@chromium', 'wasm-scalar@firefox', 'wasm-scalar@webkitgtk']);
      const receipts = new Set<string>();
      for (const { backend, receipt: own, claims } of backends) {
        const ran = backend === 'native-scalar' || (runs.length > 0 && observations.has(backend));
        assert.equal(own !== null, ran, backend);
        if (own !== null) receipts.add(own);
        for (const level of ['L0', 'L1', 'L2', 'L3', 'L5', 'L6', 'L7', 'L9']) assert.equal(claims[level], ran ? 'holds' : 'not-claimed', `${backend} ${level}`);
        assert.equal(claims['L11'], 'not-claimed');
        if (!ran) assert.ok(Object.values(claims).every((state) => state === 'not-claimed'), backend);
      }
      assert.equal(receipts.size, 1 + runs.length, 'each backend has a receipt of its own');
    }
    const html = readFileSync(join(OUT, 'report.html'), 'utf8');
    for (const backend of observations.keys()) assert.ok(html.includes(`<th scope="col">${backend}`), backend);
  });
});
