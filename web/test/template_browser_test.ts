// Chat templates in every engine: the native command's programs, byte for byte, and its segments, owners and refusals, over a
// sample of the published templates and contexts and every probe (TPL-02, TPL-05, BKD-02). template_test.ts runs all of them
// in Node. BROWSERS names the engines.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { extname, join, normalize } from 'node:path';
import { after, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { DRIVERS, type Page } from './drivers.js';
import { type Answer, type Case, plain } from './page/answers.js';
import { file, serve } from './server.js';
import { readArtifact, ROOT, SLM, slm } from './support.js';
import { goldens, linesOf, probes, skip } from './template_cases.js';

const BUILT = fileURLToPath(new URL('../', import.meta.url));
const TYPES: Record<string, string> = { '.js': 'text/javascript', '.wasm': 'application/wasm' };
const EVERY = 19; // of the goldens, 14 contexts a template: every template by turns in another context
const EVERY_PROGRAM = 8;
const digest = (data: string): string => createHash('sha256').update(data).digest('hex');
const jsonFile = (text: string): ReturnType<typeof file> => file(new TextEncoder().encode(text), 'application/json');

/** The native command's program of a template, by SHA-256: it says so beside a rendering. */
async function nativePrograms(cases: Case[]): Promise<Map<string, string>> {
  const folder = mkdtempSync(join(tmpdir(), 'slm-programs-'));
  const programs = new Map<string, string>();
  try {
    for (const [i, { template, context, clock }] of cases.entries()) {
      const [source, input] = [join(folder, `${i}.jinja`), join(folder, `${i}.json`)];
      writeFileSync(source, template);
      writeFileSync(input, JSON.stringify(context));
      const done = await promisify(execFile)(SLM, ['--json', 'render', source, input, '--clock', clock, '--explain'], { maxBuffer: 1 << 26 });
      programs.set(digest(template), (JSON.parse(done.stdout) as { program: { sha256: string } }).program.sha256);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
  return programs;
}

if (skip === false) {
  const cases = [...goldens().filter((_, i) => i % EVERY === 0), ...probes()];
  const native = linesOf(slm(['render', join(ROOT, 'models/slm-demo'), '--batch'], cases.map((one) => `${JSON.stringify(one)}\n`).join(''))).map(plain);
  assert.equal(native.length, cases.length);
  const renders = cases.filter((_, i) => native[i]?.error === undefined);
  const programs = await nativePrograms(renders.filter((_, i) => i % EVERY_PROGRAM === 0));

  const routes = new Map([
    ['/cases.json', jsonFile(JSON.stringify(cases))],
    ['/slm-demo.slm', file(readArtifact('slm-demo'))],
    ['/templates.html', file(new Uint8Array(readFileSync(join(ROOT, 'web/test/page/templates.html'))), 'text/html')],
  ]);
  const lookup = routes.get.bind(routes);
  routes.get = (path) => {
    const type = TYPES[extname(path)];
    return lookup(path) ?? (type === undefined ? undefined : file(new Uint8Array(readFileSync(join(BUILT, normalize(path)))), type));
  };
  const server = await serve(routes);
  after(() => server.close());

  // All of them before the first test: the runner ends a file whose tests have ended.
  const pages: Page[] = [];
  for (const engine of (process.env['BROWSERS'] ?? 'chromium,firefox,webkitgtk').split(',')) {
    const start = DRIVERS[engine];
    if (start === undefined) throw new Error(`no driver for ${engine}`);
    const page = await start();
    after(() => page.close());
    await page.open(`${server.origin}/templates.html`);
    pages.push(page);
  }

  for (const page of pages) {
    const { engine } = page;
    describe(engine, () => {
      test('a sample of the goldens and every probe: the same text, segments, owners and refusals', async () => {
        assert.equal(await page.check('prepare', { cases: '/cases.json', artifact: '/slm-demo.slm' }), cases.length);
        const answers = (await page.check('answers', null)) as string[];
        const wrong = native.findIndex((expected, i) => answers[i] !== digest(JSON.stringify(expected)));
        if (wrong >= 0) assert.deepEqual(await page.check('answer', { index: wrong }), native[wrong], cases[wrong]?.template.slice(0, 80));
        assert.equal(wrong, -1);
        const nSpans = native.reduce((sum, { spans }) => sum + (spans?.length ?? 0), 0);
        const nRefused = native.filter(({ error }) => error !== undefined).length;
        console.log(`figures: ${engine}: ${cases.length} cases, ${nSpans} segments, ${nRefused} refusals alike`);
        assert.ok(cases.length > 600 && nSpans > 4000 && nRefused > 30);
        // Another conversation is another answer: the digests look at the segments.
        const [one] = native.map(({ spans }, i) => ((spans?.length ?? 0) > 3 ? i : -1)).filter((i) => i >= 0);
        const other = (await page.check('answer', { index: one, context: { messages: [] } })) as Answer;
        assert.notEqual(digest(JSON.stringify(other)), answers[one ?? 0]);
      });

      test('the same programs, byte for byte', async () => {
        const mine = new Map((await page.check('programs', null)) as [string, string][]);
        const wrong = [...programs].filter(([source, program]) => mine.get(source) !== program);
        console.log(`figures: ${engine}: ${programs.size} programs of ${mine.size} alike`);
        assert.deepEqual(wrong, []);
        assert.ok(programs.size > 50 && mine.size > 400);
      });
    });
  }
} else {
  test('templates in every engine', { skip }, () => undefined);
}
