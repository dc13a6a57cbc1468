// The page in a real browser: what a person sees and can do, what it may fetch, and what it makes of hostile files.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';

import { type Browser, type BrowserContext, chromium, type Page, type Request } from 'playwright-core';

import { type Bundle, damage, forge, head, nodeOf, readBundle, replaceAll, sha256, text, writeBundle } from './bundle.js';
import { withFileSize } from './header.js';
import { type Answer, cutAfter, file, serve, type TestServer, withoutRanges } from './server.js';
import { ROOT, slm, SLM } from './support.js';

const PAGE = join(ROOT, 'build/page');
const TYPES: Record<string, string> = { html: 'text/html', js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml', wasm: 'application/wasm' };
const QUESTION = 'Ada likes tea. Ben likes soup. What does Ben like?';
const TIMEOUT = 120_000;
const ARGUMENTS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--host-resolver-rules=MAP slm.test 127.0.0.1'];
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const routes = new Map<string, Answer>();
const sizes = new Map<string, { raw: number; packed: number }>();
for (const entry of readdirSync(PAGE, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile()) continue;
  const path = `/${relative(PAGE, join(entry.parentPath, entry.name))}`;
  const bytes = new Uint8Array(readFileSync(join(PAGE, path)));
  routes.set(path, file(bytes, TYPES[path.split('.').at(-1) ?? ''] ?? 'application/octet-stream'));
  if (!path.startsWith('/models/')) sizes.set(path, { raw: bytes.length, packed: gzipSync(bytes, { level: 9 }).length });
}
const index = routes.get('/index.html');
if (index !== undefined) routes.set('/', index);

let server: TestServer;
let browser: Browser;
const folder = mkdtempSync(join(tmpdir(), 'slm-page-'));

interface Watched {
  page: Page;
  /** What the page's own scripts threw or the policy refused. */
  faults: string[];
  requests: Request[];
}

async function openPage(options: object = {}, address = `${server.origin}/`, from: Pick<Browser, 'newPage'> = browser): Promise<Watched> {
  const page = await from.newPage(options);
  page.setDefaultTimeout(TIMEOUT);
  const faults: string[] = [];
  const requests: Request[] = [];
  page.on('pageerror', (fault) => faults.push(fault.message));
  page.on('console', (message) => message.type() === 'error' && faults.push(message.text()));
  page.on('request', (request) => requests.push(request));
  await page.addInitScript(() => {
    const scope = globalThis as unknown as { shift: number; shifted: string[] };
    scope.shift = 0;
    scope.shifted = [];
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries() as (PerformanceEntry & { value: number; hadRecentInput: boolean; sources: { node: Element | null }[] })[]) {
        if (entry.hadRecentInput) continue;
        scope.shift += entry.value;
        scope.shifted.push(...entry.sources.map(({ node }) => `${node?.nodeName}.${node?.className} ${node?.textContent?.slice(0, 40)}`));
      }
    }).observe({ type: 'layout-shift', buffered: true });
  });
  await page.goto(address);
  await page.waitForSelector('#load-shipped');
  return { page, faults, requests };
}

async function chat(page: Page): Promise<void> {
  await page.click('#load-shipped');
  await page.waitForSelector('.composer', { timeout: TIMEOUT });
  await page.fill('#message', QUESTION);
  await page.press('#message', 'Enter');
  await page.waitForFunction(() => document.querySelector('.answer > .hint')?.textContent?.includes('ended'), null, { timeout: TIMEOUT });
}

async function checkFile(page: Page, path: string): Promise<string> {
  await page.click('#do-tab-receipt');
  await page.setInputFiles('#do-receipt input[type=file]', path);
  await page.waitForFunction(() => !/computing again/.test(document.querySelector('#receipt-output')?.textContent ?? ' computing again'), null, { timeout: TIMEOUT });
  return (await page.textContent('#receipt-output .headline, #receipt-output .fault')) ?? '';
}

async function axeFindings(page: Page): Promise<string[]> {
  await page.evaluate(axe);
  return page.evaluate(async () => {
    const run = (globalThis as unknown as { axe: { run(): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> } }).axe;
    const { violations } = await run.run();
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(' | ')}`);
  });
}

async function overflow(page: Page): Promise<number> {
  return page.evaluate(() => (document.scrollingElement?.scrollWidth ?? 0) - document.documentElement.clientWidth);
}

function native(args: string[]): { status: number | null; stdout: string } {
  return spawnSync(SLM, args, { encoding: 'utf8', maxBuffer: 1 << 28 });
}

before(async () => {
  server = await serve(routes, { isolated: false });
  browser = await chromium.launch({
    executablePath: '/usr/bin/chromium',
    args: ARGUMENTS,
  });
});
after(async () => {
  await browser.close();
  await server.close();
  rmSync(folder, { recursive: true });
});

const whole = join(folder, 'whole.bundle');

void test('chats, and shows what the model saw', { timeout: TIMEOUT }, async () => {
  const { page, faults, requests } = await openPage();
  await chat(page);
  const record = JSON.stringify({ id: 'q', messages: [{ role: 'user', content: QUESTION }], max_new_tokens: 64 });
  const expected = JSON.parse(slm(['run', join(PAGE, 'models/slm-demo.slm'), '--batch'], `${record}\n`)) as { text: string; prompt_ids: number[]; tokens: number[] };
  assert.equal(await page.textContent('.answer-text'), expected.text);

  const prompt = page.locator('.rendered');
  assert.match((await prompt.textContent()) ?? '', /<\|im_start\|>/);
  // Colour is not the only cue: the template is underlined with dots, content is boxed and says whose it is.
  assert.equal(await prompt.locator('.span-template').first().evaluate((span) => getComputedStyle(span).borderBlockEndStyle), 'dotted');
  assert.match((await prompt.locator('.span-content .owner').allTextContents()).join(), /user 1/);

  await page.click('.subtabs [role=tab]:nth-child(2)');
  const ids = await page.locator('.inspector tbody tr td:nth-child(3)').allTextContents();
  assert.deepEqual(ids.map(Number), expected.prompt_ids);
  await page.waitForFunction(() => ![...document.querySelectorAll('.inspector tbody td')].some((cell) => cell.textContent === '…'));
  assert.match((await page.locator('.inspector tbody tr td:nth-child(4)').allTextContents()).join(), /3c 7c 62 6f 73 7c 3e/); // <|bos|>

  await page.click('.subtabs [role=tab]:nth-child(3)');
  const steps = await page.locator('.step-head').allTextContents();
  assert.equal(steps.length, expected.tokens.length);
  steps.forEach((step, i) => {
    assert.match(step, new RegExp(`id ${expected.tokens[i]}\\D`));
    assert.match(step, /p [\d.]+.*margin [\d.]+/);
  });
  // Greedy: the chosen token is the likeliest of each step.
  for (const bars of await page.locator('.bars').all()) assert.match((await bars.locator('li').first().textContent()) ?? '', /chosen/);

  assert.deepEqual(faults, []);
  // Only the loader document fetches, from this server alone (no external request).
  const fetched = requests.filter((request) => request.resourceType() === 'fetch' || request.resourceType() === 'xhr');
  assert.ok(fetched.length >= 2);
  for (const request of fetched) assert.match(request.frame().url(), /\/loader\.html$/);
  for (const request of requests) assert.ok(/^(blob:)?http:\/\/127\.0\.0\.1:/.test(request.url()), request.url());
  assert.deepEqual(await page.evaluate(() => (globalThis as unknown as { shifted: string[] }).shifted), [], 'layout shift');
  const total = { raw: 0, packed: 0 };
  for (const [path, size] of sizes) {
    if (path.endsWith('.wasm')) continue;
    total.raw += size.raw;
    total.packed += size.packed;
  }
  const wasm = { raw: 0, packed: 0 };
  for (const name of ['/slm.wasm', '/slm-text.wasm']) {
    const size = sizes.get(name) ?? assert.fail(name);
    wasm.raw += size.raw;
    wasm.packed += size.packed;
  }
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? Infinity);
  console.log(`page ${total.raw} bytes (gzip ${total.packed}); with the modules ${total.raw + wasm.raw} (gzip ${total.packed + wasm.packed}); first paint ${paint.toFixed(0)} ms`);
  assert.ok(total.raw < 300_000, 'the page is under 300 KB without the model');
});

void test('has no network where it chats and verifies, and takes no markup', { timeout: TIMEOUT }, async () => {
  const { page } = await openPage();
  await chat(page);
  const tries = async (): Promise<Record<string, string>> => {
    const outcome: Record<string, string> = {};
    await fetch('/icon.svg?by-fetch').then(() => (outcome['fetch'] = 'went'), (fault: unknown) => (outcome['fetch'] = String(fault)));
    try {
      const socket = new WebSocket(`ws://${location.host || '127.0.0.1'}/by-socket`);
      outcome['socket'] = await new Promise((resolve) => {
        socket.onopen = () => { resolve('went'); };
        socket.onerror = () => { resolve('refused'); };
      });
    } catch (fault) {
      outcome['socket'] = String(fault);
    }
    return outcome;
  };
  const [worker] = page.workers();
  assert.ok(worker !== undefined && worker.url().startsWith('blob:'));
  const inWorker = await worker.evaluate(async (origin) => {
    const result = await fetch(`${origin}/icon.svg?by-worker`).then(() => 'went', (fault: unknown) => String(fault));
    let request = 'refused';
    const xhr = new XMLHttpRequest();
    xhr.open('GET', `${origin}/icon.svg?by-worker-xhr`, false);
    try {
      xhr.send();
      if (xhr.status > 0) request = 'went';
    } catch { /* refused */ }
    return [result, request];
  }, server.origin);
  assert.match(inWorker[0] ?? '', /Failed to fetch/);
  assert.equal(inWorker[1], 'refused');
  const inPage = await page.evaluate(tries);
  assert.match(inPage['fetch'] ?? '', /Failed to fetch/);
  assert.notEqual(inPage['socket'], 'went');
  assert.equal(await page.evaluate(() => navigator.sendBeacon('/by-beacon', 'x') && performance.getEntriesByType('resource').some(({ name }) => name.includes('by-beacon'))), false);
  assert.ok(![...server.seen.keys()].some((path) => path.startsWith('/by-')));
  assert.equal(server.seen.get('/icon.svg?by-fetch'), undefined);

  // Trusted Types: a string is no markup and no script, for anybody.
  const markup = await page.evaluate(() => {
    const attempt = (work: () => void): string => {
      try {
        work();
        return 'went';
      } catch (fault) {
        return (fault as Error).name;
      }
    };
    return [
      attempt(() => { document.body.innerHTML = '<img src=x>'; }),
      attempt(() => { document.body.insertAdjacentHTML('beforeend', '<img src=x>'); }),
      attempt(() => { new Worker('./assets/x.js'); }),
      attempt(() => { document.createElement('script').text = 'alert(1)'; }),
    ];
  });
  assert.deepEqual(markup, ['TypeError', 'TypeError', 'TypeError', 'TypeError']);
  // The loader has the network, and takes no markup either.
  const loader = page.frames().find((frame) => frame.url().endsWith('/loader.html'));
  assert.equal(await loader?.evaluate(() => fetch('./icon.svg').then(({ status }) => status)), 200);
  assert.equal(await loader?.evaluate(() => { try { document.body.innerHTML = '<b>x'; return 'went'; } catch (fault) { return (fault as Error).name; } }), 'TypeError');
});

void test('verifies on this device; the receipt is accepted natively, a changed one refused', { timeout: 2 * TIMEOUT }, async () => {
  const { page, faults } = await openPage();
  await page.click('#do-tab-verify');
  await page.click('#verify-start');
  await page.waitForSelector('#receipt-id, .fault', { timeout: TIMEOUT });
  assert.match((await page.textContent('#verify-output .headline, .fault')) ?? '', /with the bits of the native reference/);
  assert.match((await page.textContent('#verify-output')) ?? '', /356 of 356 arrays and \d+ tokens equal bit by bit/);
  assert.match((await page.textContent('.honesty')) ?? '', /does not prove: that the device is honest/);
  assert.ok((await page.locator('.chart canvas').count()) === 1);
  const rows = await page.locator('#verify-output .tall tbody tr').allTextContents();
  assert.ok(rows.length > 40);
  for (const row of rows) assert.match(row, /00$/, row); // error and differing bits against native
  const verdicts = await page.locator('#verify-output .verdicts tbody tr').allTextContents();
  for (const level of ['L0', 'L1', 'L2', 'L3', 'L5', 'L6', 'L7', 'L9']) assert.ok(verdicts.some((row) => new RegExp(`^${level} .*pass`).test(row)), level);
  assert.ok(verdicts.some((row) => /^L11 .*not claimed/.test(row)));

  const small = join(folder, 'receipt.bundle');
  for (const [i, path] of [small, whole].entries()) {
    const [download] = await Promise.all([page.waitForEvent('download'), page.locator('a[download]').nth(i).click()]);
    await download.saveAs(path);
  }
  const empty = ['--store', join(folder, 'none')];
  const id = await page.textContent('#receipt-id');
  const accepted = native([...empty, 'verify', whole, '--json']);
  assert.equal(accepted.status, 0, accepted.stdout);
  assert.equal((JSON.parse(accepted.stdout) as { receipt: string }).receipt, id);
  // The receipt alone stands on objects that are not there.
  assert.equal(native([...empty, 'verify', small]).status, 1);
  assert.equal(await checkFile(page, small).then((headline) => /holds: 17 claims/.test(headline)), true);
  assert.deepEqual(faults, []);

  const bundle = readBundle(readFileSync(whole));
  const observation = nodeOf(readBundle(readFileSync(small)), 'slm.observation.v1');
  const blob = bundle.blobs.find((bytes) => observation.includes(sha256(bytes)) && bytes.length < 1_000_000) as Buffer;
  const flipped = Buffer.from(blob);
  flipped[1000] = (flipped[1000] ?? 0) ^ 1;
  const own = (schema: string): Buffer => bundle.nodes.find((node) => node.equals(nodeOf(readBundle(readFileSync(small)), schema))) as Buffer;
  const seen = own('slm.observation.v1');
  const build = own('slm.runtime-build.v1');
  const promotion = own('slm.promotion.v1');
  const other = (bytes: Buffer, from: Buffer | string, to: Buffer | string): Buffer => {
    const changed = replaceAll(bytes, Buffer.from(from), Buffer.from(to));
    assert.ok(!changed.equals(bytes));
    return changed;
  };
  const version = /version.(\d+\.\d+\.\d+\.\d+)/.exec(seen.toString('latin1'))?.[1] ?? '';
  const verdict = Buffer.concat([text('l7'), text('pass')]);
  const changes: [string, Buffer, Buffer][] = [
    ['one byte of the observation', bundle.blobs.find((bytes) => bytes.equals(blob)) as Buffer, flipped],
    ['a verdict', promotion, other(promotion, verdict, Buffer.concat([text('l7'), text('fail')]))],
    ['the engine string', seen, other(seen, version, version.replace(/^\d/, '9'))],
    ...['slm', 'slm-text'].map((name): [string, Buffer, Buffer] =>
      [`the id of ${name}.wasm`, build, other(build, sha256(readFileSync(join(PAGE, `${name}.wasm`))), Buffer.alloc(32, 7))]),
  ];
  const path = join(folder, 'changed.bundle');
  // Status 1: claims fail; 2 and above: it could not be read at all.
  const refusal = (changed: Bundle): { status: number; codes: string[] } => {
    writeFileSync(path, writeBundle(changed));
    const { status, stdout } = native([...empty, 'verify', path, '--json']);
    const answer = JSON.parse(stdout) as { problems?: { code: string }[]; error?: { code: string } };
    return { status: status ?? -1, codes: [...(answer.problems ?? []), ...(answer.error === undefined ? [] : [answer.error])].map(({ code }) => code) };
  };
  for (const [what, old, now] of changes) {
    const { status, codes } = refusal(damage(bundle, old, now));
    assert.ok(status > 0, what);
    assert.ok(codes.includes(old === promotion ? 'NOT-FOUND' : 'GRAPH-MISSING-CHILD'), `${what}: ${codes.join()}`);
    // With all ids made again it is another receipt; what can be computed again is refused even so.
    assert.notEqual(forge(bundle, old, now).receipt.toString('hex'), id, what);
  }
  assert.ok(refusal(forge(bundle, ...(changes[0]?.slice(1) as [Buffer, Buffer]))).status === 1);
  assert.ok(refusal(forge(bundle, ...(changes[1]?.slice(1) as [Buffer, Buffer]))).codes.includes('VERDICT-DIFFERS'));
  assert.ok(refusal(forge(bundle, seen, other(seen, 'hchromium', 'hchromiun'))).codes.includes('GRAPH-SCHEMA'));
  // A build that leaves out the module of the texts: its map has one member less.
  const member = build.indexOf(Buffer.concat([text('text_module_sha256'), Buffer.from([0x58, 0x20])]));
  assert.ok(member > 0);
  const silent = Buffer.concat([build.subarray(0, member), build.subarray(member + text('text_module_sha256').length + 34)]);
  const head = silent.indexOf(text('edges')) - 1;
  assert.equal((silent[head] ?? 0) & 0xe0, 0xa0);
  silent[head] = (silent[head] ?? 0) - 1;
  const { codes } = refusal(forge(bundle, build, silent));
  assert.ok(codes.includes('GRAPH-SCHEMA'), codes.join());
});

void test('makes nothing of a hostile bundle but text', { timeout: 2 * TIMEOUT }, async () => {
  const { page, faults } = await openPage();
  const bundle = readBundle(readFileSync(join(PAGE, 'models/slm-demo.evidence')));
  const acquisition = nodeOf(bundle, 'slm.acquisition.v1');
  const name = '<img src=x onerror="alert(1)">\u202Eevil\u0007\u2066';
  let hostile = forge(bundle, acquisition, replaceAll(acquisition, Buffer.concat([text('name'), text('slm-demo')]), Buffer.concat([text('name'), text(name)])));
  // It also claims a level that nothing was compared at.
  const promotion = nodeOf(hostile, 'slm.promotion.v1');
  hostile = forge(hostile, promotion, replaceAll(promotion, Buffer.concat([text('l11'), text('not-claimed')]), Buffer.concat([text('l11'), text('pass')])));
  const path = join(folder, 'hostile.bundle');
  writeFileSync(path, writeBundle(hostile));
  let dialogs = 0;
  page.on('dialog', (dialog) => {
    dialogs++;
    void dialog.dismiss();
  });
  assert.match(await checkFile(page, path), /It does not hold/);
  const output = (await page.textContent('#receipt-output')) ?? '';
  assert.match(output, /VERDICT-DIFFERS/);
  assert.match(output, /<img src=x onerror="alert\(1\)">\[U\+202E\]evil\[U\+0007\]\[U\+2066\]/);
  assert.ok(!/[\u202e\u2066\u0007]/.test(output));
  assert.equal(await page.locator('#receipt-output img').count(), 0);
  const level = await page.locator('#receipt-output .verdicts tbody tr').filter({ has: page.locator('th', { hasText: /^L11 / }) }).textContent();
  assert.match(level ?? '', /not claimed/, 'a stored pass is not shown');
  assert.equal(dialogs, 0);
  assert.deepEqual(faults, []);

  // A million further claims to settle, none of which is there.
  const n = 1_000_000;
  const many = nodeOf(bundle, 'slm.promotion.v1');
  const edges = many.indexOf(text('edges')) + text('edges').length;
  const count = (many[edges] ?? 0) === 0x98 ? (many[edges + 1] ?? 0) : (many[edges] ?? 0) & 31;
  const skip = (many[edges] ?? 0) === 0x98 ? 2 : 1;
  let end = edges + skip;
  for (let i = 0; i < count; i++) end += 1 + ((many[end] ?? 0) & 31);
  const children = Buffer.alloc(32 * n);
  for (let i = 0; i < n; i++) children.writeUInt32BE(i, 32 * i);
  const grown = Buffer.concat([
    many.subarray(0, edges), head(4, count + n), many.subarray(edges + skip, end), Buffer.alloc(9 * n, text('conflict')),
    many.subarray(end), children,
  ]);
  writeFileSync(path, writeBundle(forge(bundle, many, grown)));
  assert.match(await checkFile(page, path), /It does not hold: .* 1000\d{3} problems|Refused/);
  assert.ok((await page.locator('#receipt-output *').count()) < 2000, 'the list is bounded');
  assert.deepEqual(faults, []);
});

void test('is usable by keyboard, screen reader and at 360 pixels, light and dark', { timeout: 2 * TIMEOUT }, async () => {
  for (const colorScheme of ['light', 'dark'] as const) {
    const { page, faults } = await openPage({ colorScheme, viewport: { width: 360, height: 740 } });
    const findings = new Set<string>();
    const look = async (where: string): Promise<void> => {
      for (const finding of await axeFindings(page)) findings.add(`${where}: ${finding}`);
      assert.ok((await overflow(page)) <= 0, `${where} is wider than the screen`);
    };
    await look('start');
    await chat(page);
    await page.click('.saw > summary');
    for (const i of [1, 2, 3]) {
      await page.click(`.subtabs [role=tab]:nth-child(${i})`);
      await look(`chat ${i}`);
    }
    await page.click('.settings > summary');
    await page.click('.model-bar summary');
    await look('settings');
    // By keyboard alone: tabs, then the button.
    await page.focus('#do-tab-chat');
    await page.keyboard.press('ArrowRight');
    assert.equal(await page.getAttribute('#do-tab-verify', 'aria-selected'), 'true');
    await page.keyboard.press('Tab');
    for (let i = 0; i < 3 && (await page.evaluate(() => document.activeElement?.id)) !== 'verify-start'; i++) await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.waitForSelector('#receipt-id', { timeout: TIMEOUT });
    await page.click('figure summary');
    await look('verify');
    await checkFile(page, whole);
    await look('receipt');
    assert.deepEqual(await page.evaluate(() => (globalThis as unknown as { shifted: string[] }).shifted), [], 'layout shift');
    await page.close();
    assert.deepEqual([...findings], []);
    assert.deepEqual(faults, []);
  }
});

void test('says what it does without, outside a secure context', { timeout: TIMEOUT }, async () => {
  const { page, faults } = await openPage({}, `${server.origin.replace('127.0.0.1', 'slm.test')}/`);
  assert.match((await page.textContent('#notice')) ?? '', /module’s own SHA-256, and nothing is stored/);
  await chat(page);
  await page.click('.model-bar summary');
  assert.match((await page.textContent('.identity')) ?? '', /not kept: this page is not a secure context/);
  assert.equal(await page.evaluate(() => 'subtle' in crypto), false);
  assert.deepEqual(faults.filter((fault) => !/Cross-Origin-Opener-Policy/.test(fault)), []);
});

const moved: Answer = (_request, response) => {
  response.writeHead(302, { Location: '/page' });
  response.end();
};
const missing: Answer = (_request, response) => {
  response.writeHead(404, { 'Content-Type': 'text/html' });
  response.end('<!doctype html>');
};
/** The connection breaks at this byte whoever asks, and however often. */
const alwaysCut = (size: number, bytes: Uint8Array): Answer => (request, response) => {
  const begin = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0);
  const headers: Record<string, string | number> = { 'Content-Type': 'application/octet-stream', 'Content-Length': bytes.length - begin };
  if (begin > 0) headers['Content-Range'] = `bytes ${begin}-${bytes.length - 1}/${bytes.length}`;
  response.writeHead(begin > 0 ? 206 : 200, headers);
  response.write(bytes.subarray(begin, Math.max(begin, size)), () => setTimeout(() => response.destroy(), 200));
};

/** Lets a page load /other.slm as the server of the moment gives it. */
function otherModel(): { serveBy(next: Answer): void; load(page: Page): Promise<void>; again(page: Page): Promise<void>; message(page: Page, expected: RegExp): Promise<void> } {
  let answer: Answer = missing;
  routes.set('/other.slm', (request, response, n) => { answer(request, response, n); });
  return {
    serveBy: (next) => {
      server.seen.delete('/other.slm');
      answer = next;
    },
    async load(page) {
      await page.fill('#model-url', `${server.origin}/other.slm`);
      await page.press('#model-url', 'Enter');
    },
    async again(page) {
      await page.click('.message .fault button');
    },
    async message(page, expected) {
      await page.waitForFunction((pattern) => new RegExp(pattern, 's').test(document.querySelector('.message .fault')?.textContent ?? ''), expected.source, { timeout: TIMEOUT })
        .catch(async () => { assert.match((await page.textContent('.message')) ?? '', expected); });
    },
  };
}

void test('says what went wrong, and goes on when it is tried again', { timeout: 2 * TIMEOUT }, async () => {
  const model = new Uint8Array(readFileSync(join(PAGE, 'models/slm-demo.slm')));
  const damaged = model.slice();
  damaged[damaged.length - 100] = (damaged[damaged.length - 100] ?? 0) ^ 1;
  routes.set('/page', file(new TextEncoder().encode(`<!doctype html>${' '.repeat(400)}`), 'text/html'));
  const other = otherModel();
  const { page } = await openPage();
  await other.load(page);
  await other.message(page, /no such file \(404\); check the address/);
  const wrong: [Answer, RegExp][] = [
    [file(damaged), /chunk \d+.*SLM-CHUNK/],
    [file(new TextEncoder().encode(`<!doctype html>${' '.repeat(400)}`), 'text/html; charset=utf-8'), /the server sent text\/html.*this is a page, not a model file/],
    [moved, /text\/html after a redirect to .*\/page: this is a page, not a model file/],
    [file(withFileSize(model.subarray(0, 192), 2 ** 40)), /SLM-SIZE/],
  ];
  for (const [answer, expected] of wrong) {
    other.serveBy(answer);
    await other.again(page);
    await other.message(page, expected);
  }
  // The bytes decide, not the type.
  other.serveBy(file(model, 'text/plain'));
  await other.again(page);
  await page.waitForSelector('.composer', { timeout: TIMEOUT });
});

void test('a model that no memory is left for: the sizes, and another one loads', { timeout: TIMEOUT }, async () => {
  const model = new Uint8Array(readFileSync(join(PAGE, 'models/slm-demo.slm')));
  const huge = withFileSize(model.subarray(0, 192), 2 ** 40);
  const size = Number(new DataView(huge.buffer).getBigUint64(16, true));
  const other = otherModel();
  other.serveBy((_request, response) => {
    response.writeHead(200, { 'Content-Type': 'application/octet-stream', 'Content-Length': size });
    response.write(huge);
  });
  const { page } = await openPage();
  await other.load(page);
  await other.message(page, new RegExp(`the artifact has ${size} bytes; memory in use: \\d+ bytes, at most 4294967296`));
  other.serveBy(file(model));
  await other.again(page);
  await page.waitForSelector('.composer', { timeout: TIMEOUT });
});

void test('a connection that breaks goes on where it stopped, by itself and when it is tried again', { timeout: TIMEOUT }, async () => {
  const model = new Uint8Array(readFileSync(join(PAGE, 'models/slm-demo.slm')));
  const cut = (1 << 20) + (1 << 19);
  const other = otherModel();
  // Once: by itself; here the server ignores the range and sends everything again.
  const { page } = await openPage();
  other.serveBy(cutAfter(cut, model, withoutRanges(model)));
  await other.load(page);
  await page.waitForSelector('.composer', { timeout: TIMEOUT });
  assert.equal(server.seen.get('/other.slm')?.length, 2);
  await page.close();
  // For good: a message; then only what is not stored yet is fetched.
  const { page: later } = await openPage({ });
  other.serveBy(alwaysCut(cut, model));
  await other.load(later);
  await other.message(later, /the connection broke .*try again to go on from here/);
  other.serveBy(file(model));
  await other.again(later);
  await later.waitForSelector('.composer', { timeout: TIMEOUT });
  const last = /^bytes=(\d+)-$/.exec(server.seen.get('/other.slm')?.at(-1) ?? '');
  assert.ok(Number(last?.[1]) >= 1 << 20, `went on at ${last?.[1]}`);
});

/** What the page says of its storage. */
async function storageOf(page: Page): Promise<string> {
  await page.waitForSelector('.composer', { timeout: TIMEOUT });
  await page.click('.model-bar summary');
  return (await page.locator('.identity > div').filter({ hasText: 'Storage' }).textContent()) ?? '';
}

void test('between visits: kept, evicted, two tabs at once, no room', { timeout: 2 * TIMEOUT }, async () => {
  // A profile on disk: one in memory has no storage limits.
  const profile = join(folder, 'profile');
  const context: BrowserContext = await chromium.launchPersistentContext(profile, { executablePath: '/usr/bin/chromium', args: ARGUMENTS });
  try {
    const visit = async (): Promise<Page> => {
      const { page } = await openPage({}, `${server.origin}/`, context);
      await page.click('#load-shipped');
      return page;
    };
    const evict = (page: Page): Promise<void> => page.evaluate(async () => (await navigator.storage.getDirectory()).removeEntry('slm-models', { recursive: true }));
    const first = await visit();
    assert.match(await storageOf(first), /kept in this browser’s storage/);
    await first.close();
    const second = await visit();
    assert.match(await storageOf(second), /from this browser’s storage, every chunk checked again/);
    await evict(second);
    await second.close();
    // Nobody tells a page that its storage was evicted: it fetches again.
    const third = await visit();
    assert.match(await storageOf(third), /kept in this browser’s storage/);
    await evict(third);
    await third.close();

    const { page: left } = await openPage({}, `${server.origin}/`, context);
    const { page: right } = await openPage({}, `${server.origin}/`, context);
    await Promise.all([left.click('#load-shipped'), right.click('#load-shipped')]);
    const said = [await storageOf(left), await storageOf(right)];
    assert.ok(said.some((text) => /kept in this browser’s storage/.test(text)), said.join(' | '));
    for (const text of said) assert.match(text, /kept in this browser’s storage|from this browser’s storage|not kept: another tab is storing this model/);
    await evict(left);
    await left.close();
    await right.close();

    const { page: full } = await openPage({}, `${server.origin}/`, context);
    const session = await context.newCDPSession(full);
    await session.send('Storage.overrideQuotaForOrigin', { origin: server.origin, quotaSize: 1 << 20 });
    await full.click('#load-shipped');
    assert.match(await storageOf(full), /not kept: there is no room left in the browser's storage for this model/);
    await session.send('Storage.overrideQuotaForOrigin', { origin: server.origin });
    await full.click('.model-bar > button');
    await full.click('#load-shipped');
    assert.match(await storageOf(full), /kept in this browser’s storage/);
  } finally {
    await context.close();
  }
});

void test('says that the model is gone when its worker was killed, and loads it again', { timeout: TIMEOUT }, async () => {
  const { page } = await openPage();
  await page.evaluate(() => {
    const scope = globalThis as unknown as { Worker: typeof Worker; started: Worker };
    const Native = scope.Worker;
    scope.Worker = class extends Native {
      constructor(...args: ConstructorParameters<typeof Native>) {
        super(...args);
        scope.started = this;
      }
    };
  });
  await chat(page);
  await page.evaluate(() => { (globalThis as unknown as { started: Worker }).started.terminate(); });
  await page.fill('#message', QUESTION);
  await page.press('#message', 'Enter');
  await page.waitForSelector('.answer .fault');
  assert.match((await page.locator('.answer').last().textContent()) ?? '', /the worker ended.*Press “Change model” and load it again/);
  await page.click('.model-bar > button');
  await chat(page);
});

void test('says so where there is no WebAssembly', { timeout: TIMEOUT }, async () => {
  const without = await chromium.launch({ executablePath: '/usr/bin/chromium', args: [...ARGUMENTS, '--js-flags=--jitless'] });
  try {
    const { page } = await openPage({}, `${server.origin}/`, without);
    await page.click('#load-shipped');
    await page.waitForSelector('.message .fault');
    assert.match((await page.textContent('.message .fault')) ?? '', /this browser has no WebAssembly, or a policy of the page forbids it/);
    assert.equal(await page.locator('.message button').count(), 1);
  } finally {
    await without.close();
  }
  // Where there is some, the page goes on.
  const { page } = await openPage();
  await chat(page);
});

void test('chats where there is no SIMD, with the same text', { timeout: TIMEOUT }, async () => {
  const answers: string[] = [];
  const without = await chromium.launch({ executablePath: '/usr/bin/chromium', args: [...ARGUMENTS, '--js-flags=--no-enable-sse4-1'] });
  try {
    for (const [from, expected] of [[browser, /SIMDthere/], [without, /SIMDnot there; this backend is scalar and does not need it/]] as const) {
      const { page } = await openPage({}, `${server.origin}/`, from);
      await chat(page);
      answers.push((await page.textContent('.answer-text')) ?? '');
      await page.click('.model-bar summary');
      assert.match((await page.textContent('.identity')) ?? '', expected);
    }
  } finally {
    await without.close();
  }
  assert.ok(answers[0] !== undefined && answers[0] !== '');
  assert.equal(answers[1], answers[0]);
});

assert.ok(existsSync(join(PAGE, 'index.html')), 'build/page is not built: tools/build_page.py');
