// `./dev bench web`: the figures of the package and the page in Chromium. Not a test: times depend on the machine.
import { spawnSync } from 'node:child_process';
import { createReadStream, existsSync, statSync } from 'node:fs';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

import { chromium } from 'playwright-core';

import { DRIVERS, type Page } from './drivers.js';
import { type Answer, serve } from './server.js';
import { artifactPath, ROOT } from './support.js';

const BUILT = fileURLToPath(new URL('../', import.meta.url));
const TYPES: Record<string, string> = {
  '.js': 'text/javascript', '.html': 'text/html', '.wasm': 'application/wasm', '.css': 'text/css', '.svg': 'image/svg+xml',
};
const LOADS = 9;
const PAINTS = 7;
const STREAMS = 5;
const BARE_CHUNKS = 256;
const ROUNDS = 3;
const N_PROMPT = 16;
const N_NEW = 32;
const VOCABULARY = 49152; // of SmolLM2

let holds = true;

interface Load {
  cache: { state: string };
  loadMs: number;
  firstTokenMs: number;
}

function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? NaN;
}

/** One line: median and spread, what it has to reach, and whether it does. */
function report(what: string, values: number[], unit: string, reaches: (value: number) => boolean, toReach: string): void {
  const ok = reaches(median(values));
  holds &&= ok;
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const digits = high < 10 ? 2 : 0;
  console.log(`${what}: median ${median(values).toFixed(digits)}${unit} (${values.length}: ${low.toFixed(digits)} to ${high.toFixed(digits)}; to reach: ${toReach})${ok ? '' : '  <- does not hold'}`);
}

/** Files of a folder, sent as they are read; those of the program may be kept by the browser, models may not. */
function files(folder: (path: string) => string | undefined): Map<string, Answer> {
  const routes = new Map<string, Answer>();
  routes.get = (path) => {
    const from = folder(normalize(path));
    if (from === undefined || !existsSync(from)) return undefined;
    return (_request, response) => {
      const type = TYPES[extname(from)];
      if (type !== undefined) response.setHeader('Cache-Control', 'max-age=3600');
      response.writeHead(200, { 'Content-Type': type ?? 'application/octet-stream', 'Content-Length': statSync(from).size });
      createReadStream(from, { highWaterMark: 1 << 20 }).on('error', () => response.destroy()).pipe(response);
    };
  };
  return routes;
}

const server = await serve(files((path) => {
  if (path.endsWith('.slm')) return artifactPath(path.slice(1, -4));
  return path.startsWith('/test/page/') && path.endsWith('.html') ? join(ROOT, 'web', path) : join(BUILT, path);
}));
const start = DRIVERS['chromium'];
if (start === undefined) throw new Error('no driver for Chromium');
const page: Page = await start();
const home = `${server.origin}/test/page/index.html`;
const load = async (name: string): Promise<Load> => (await page.check('load', `${server.origin}/${name}.slm`)) as Load;

async function warmLoads(name: string): Promise<void> {
  await page.open(home);
  await load(name);
  const times: number[] = [];
  for (let i = 0; i < LOADS; i++) {
    await page.open(home); // a new page: worker, module and model are started again
    const { cache, firstTokenMs } = await load(name);
    if (cache.state !== 'hit') throw new Error(`${name} came not from the cache but ${cache.state}`);
    times.push(firstTokenMs);
  }
  report(`${name}, load and first token, warm cache`, times, ' ms', (ms) => ms < 150, 'under 150');
}

async function firstPaint(): Promise<void> {
  const built = join(ROOT, 'build/page');
  const pages = await serve(files((path) => join(built, path === '/' ? 'index.html' : path)), { isolated: false });
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu'] });
  const times: number[] = [];
  for (let i = 0; i < PAINTS; i++) {
    const context = await browser.newContext(); // nothing kept from before
    const one = await context.newPage();
    await one.goto(`${pages.origin}/`);
    times.push(await one.evaluate(() => new Promise<number>((resolve) => {
      new PerformanceObserver((list) => {
        const paint = list.getEntriesByName('first-contentful-paint')[0];
        if (paint !== undefined) resolve(paint.startTime);
      }).observe({ type: 'paint', buffered: true });
    })));
    await context.close();
  }
  await browser.close();
  await pages.close();
  report('the page, first paint on loopback', times, ' ms', (ms) => ms < 1000, 'under 1000');
}

function opensslRate(): string {
  const done = spawnSync('openssl', ['speed', '-seconds', '1', '-bytes', String(1 << 20), '-evp', 'sha256'], { encoding: 'utf8' });
  const kilobytes = Number(/sha256\s+([\d.]+)k/.exec(done.stdout)?.[1]);
  return `${(kilobytes / 1000).toFixed(0)} MB/s of user time`;
}

/**
 * The whole load: reading, SHA-256 of every chunk by crypto.subtle while the bytes come in, opening both halves; in turns
 * with crypto.subtle alone, which bounds it (Chromium 156 computes a digest within the call, on the calling thread).
 */
async function streaming(): Promise<void> {
  const size = statSync(artifactPath('smollm2')).size;
  const [rates, ratios]: [number[], number[]] = [[], []];
  await page.open(home);
  await load('smollm2');
  for (let i = 0; i < STREAMS; i++) {
    await page.open(home);
    const bare = (await page.check('bareDigest', BARE_CHUNKS)) as number;
    const { cache, loadMs } = await load('smollm2');
    if (cache.state !== 'hit') throw new Error(`SmolLM2 came not from the cache but ${cache.state}`);
    const rate = size / 1000 / loadMs;
    console.log(`  loaded at ${rate.toFixed(0)} MB/s, crypto.subtle alone ${bare.toFixed(0)}, openssl ${opensslRate()}`);
    rates.push(rate);
    ratios.push((100 * rate) / bare);
  }
  report(`hash while streaming, ${(size / 1e6).toFixed(0)} MB from storage`, rates, ' MB/s', (rate) => rate >= 300, '300');
  console.log(`  of crypto.subtle alone: ${ratios.map((ratio) => ratio.toFixed(0)).join(', ')} %`);
}

function nativeRate(): number {
  const bench = join(ROOT, 'build/release/bench/slm_decode_bench');
  const done = spawnSync(bench, [artifactPath('smollm2'), 'scalar', String(N_PROMPT), String(N_NEW)], { encoding: 'utf8' });
  if (done.status !== 0) throw new Error(done.stderr);
  return (JSON.parse(done.stdout) as { decode_tokens_per_s: number }).decode_tokens_per_s;
}

/** In turns with the native build, both scalar; SmolLM2 is loaded. */
async function decode(): Promise<void> {
  const ids = Array.from({ length: N_PROMPT }, (_, i) => (i * 7919 + 13) % VOCABULARY);
  const [ratios, rates]: [number[], number[]] = [[], []];
  for (let i = 0; i < ROUNDS; i++) {
    const native = nativeRate();
    const ours = (await page.check('rate', { ids, maxNewTokens: N_NEW })) as number;
    console.log(`  SmolLM2-135M f32: Chromium ${ours.toFixed(2)} tokens/s, native scalar ${native.toFixed(2)}`);
    rates.push(ours);
    ratios.push((100 * ours) / native);
  }
  report('SmolLM2-135M f32 decode in Chromium of native scalar', ratios, ' %', (ratio) => ratio >= 50, '50');
}

const parts: Record<string, () => Promise<void>> = {
  load: async () => {
    for (const name of ['stories260k', 'slm-demo']) await warmLoads(name);
  },
  paint: firstPaint,
  streaming,
  decode,
};
try {
  for (const name of process.argv.length > 2 ? process.argv.slice(2) : Object.keys(parts)) {
    const part = parts[name];
    if (part === undefined) throw new Error(`no part ${name}`);
    await part();
  }
} finally {
  await page.close();
  await server.close();
}
process.exit(holds ? 0 : 1);
