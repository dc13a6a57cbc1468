// Chat templates in the modules: the program's bytes, every segment and every refusal of the command, over all published
// templates, contexts and probes (TPL-02, TPL-05).
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';

import { SlmError } from '../src/errors.js';
import { type Case, plain, Renderer } from './page/answers.js';
import { EVIDENCE, instantiate, openModel, readArtifact, ROOT, SLM, slm } from './support.js';
import { goldens, linesOf, probes, skip } from './template_cases.js';

const allCases = (): Case[] => [...goldens(), ...probes()];

const evidence = await instantiate(EVIDENCE);
const model = await openModel(readArtifact('slm-demo'));

const renderer = new Renderer(evidence, model);

test('every golden and probe: the same text, segments, owners and refusals', { skip }, () => {
  const cases = allCases();
  const native = linesOf(slm(['render', join(ROOT, 'models/slm-demo'), '--batch'], cases.map((one) => `${JSON.stringify(one)}\n`).join(''))).map(plain);
  assert.equal(native.length, cases.length);
  let nSpans = 0;
  let nRefused = 0;
  cases.forEach((one, i) => {
    const expected = native[i] ?? {};
    assert.deepEqual(renderer.answerOf(one), expected, one.template.slice(0, 80));
    nSpans += expected.spans?.length ?? 0;
    if (expected.error !== undefined) nRefused += 1;
  });
  console.log(`figures: ${cases.length} cases of ${renderer.programs.size} templates, ${nSpans} segments, ${nRefused} refusals alike`);
  assert.ok(cases.length >= 9000 && nSpans > 50_000 && nRefused > 500);
  // A segment's end, its owner and a place in the source are all looked at.
  const [rendered, failed] = [native.find(({ spans }) => (spans?.length ?? 0) > 1), native.find(({ error }) => error?.line !== undefined)];
  const [spans, error] = [rendered?.spans ?? [], failed?.error];
  for (const change of [{ end: 0 }, { owner: 'x' }]) {
    assert.throws(() => {
      assert.deepEqual({ ...rendered, spans: spans.map((span, i) => (i === 0 ? { ...span, ...change } : span)) }, rendered);
    });
  }
  assert.throws(() => {
    assert.deepEqual({ error: { ...error, line: 0 } }, failed);
  });
});

test('every template: the same program, byte for byte', { skip, timeout: 600_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'slm-programs-'));
  after(() => {
    rmSync(folder, { recursive: true });
  });
  // One context for each template in which it renders: `--explain` says the digest beside a rendering.
  const renders = new Map<string, Case>();
  for (const one of allCases()) {
    if (!renders.has(one.template) && renderer.answerOf(one).error === undefined) renders.set(one.template, one);
  }
  const queue = [...renders.values()].entries();
  const wrong: string[] = [];
  const work = async (): Promise<void> => {
    for (const [i, { template, context, clock }] of queue) {
      const [source, input] = [join(folder, `${i}.jinja`), join(folder, `${i}.json`)];
      writeFileSync(source, template);
      writeFileSync(input, JSON.stringify(context));
      const done = await promisify(execFile)(SLM, ['--json', 'render', source, input, '--clock', clock, '--explain'], { maxBuffer: 1 << 26 });
      const { program } = JSON.parse(done.stdout) as { program: { sha256: string; source_sha256: string } };
      const digest = (data: string | Uint8Array): string => createHash('sha256').update(data).digest('hex');
      const mine = renderer.programOf(template);
      if (mine instanceof SlmError || program.sha256 !== digest(mine) || program.source_sha256 !== digest(template)) wrong.push(template);
    }
  };
  await Promise.all([work(), work()]);
  console.log(`figures: ${renders.size} programs, ${wrong.length} others`);
  assert.deepEqual(wrong, []);
  assert.ok(renders.size > 700);
});
