// Chat templates in the modules: the program's bytes, every segment and every refusal of the command, over all published
// templates, contexts and probes (TPL-02, TPL-05).
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';

import { SlmError } from '../src/errors.js';
import { EVIDENCE, instantiate, openModel, readArtifact, ROOT, SLM, slm } from './support.js';

const VECTORS = join(ROOT, '../shared/vectors/templates');
const CLOCK = '2024-07-26T13:45:09';
const skip = existsSync(VECTORS) ? false : 'shared/vectors/templates is not beside this tree';

interface Case {
  template: string;
  context: object;
  clock: string;
}
interface Failure {
  code: string;
  message: string;
  stage?: string;
  line?: number;
  column?: number;
}
interface Answer {
  text?: string;
  spans?: { begin: number; end: number; owner: string }[];
  insertion_ownership?: object;
  error?: Failure;
}

const read = (name: string): string => readFileSync(join(VECTORS, name), 'utf8');

function allCases(): Case[] {
  const contexts = JSON.parse(read('contexts.json')) as Record<string, object>;
  const sources = new Map(readdirSync(join(VECTORS, 'files')).map((name) => [name.replace('.jinja', ''), read(`files/${name}`)]));
  const rows = gunzipSync(readFileSync(join(VECTORS, 'goldens.jsonl.gz'))).toString().trimEnd().split('\n');
  const cases = rows.map((line) => {
    const { t, c } = JSON.parse(line) as { t: string; c: string };
    const [template, context] = [sources.get(t.slice(0, 16)), contexts[c]];
    assert.ok(template !== undefined && context !== undefined, line.slice(0, 100));
    return { template, context, clock: CLOCK };
  });
  for (const { template, context } of JSON.parse(read('probes.json')) as Case[]) {
    cases.push({ template, context: { messages: [], ...context }, clock: CLOCK });
  }
  return cases;
}

const evidence = await instantiate(EVIDENCE);
const model = await openModel(readArtifact('slm-demo'));

/** The program of each source, or the refusal. */
const programs = new Map<string, Uint8Array | SlmError>();

function programOf(source: string): Uint8Array | SlmError {
  const known = programs.get(source);
  if (known !== undefined) return known;
  const made = attempt(() => evidence.bytes('slm_template_convert', source).slice());
  programs.set(source, made);
  return made;
}

function attempt<T>(work: () => T): T | SlmError {
  try {
    return work();
  } catch (fault) {
    if (fault instanceof SlmError) return fault;
    throw fault;
  }
}

function failureOf({ code, message, stage, line, column }: Failure): Failure {
  return { code, message, ...(stage !== undefined && { stage }), ...(line !== undefined && { line }), ...(column !== undefined && { column }) };
}

function answerOf(one: Case): Answer {
  const program = programOf(one.template);
  const answer = program instanceof SlmError ? program : attempt(() => model.render(JSON.stringify(one), program) as Answer);
  return plain(answer instanceof SlmError ? { error: answer.facts() } : answer);
}

/** Everything that an answer says, but for what names its input. */
function plain(answer: Answer): Answer {
  const { text, spans, insertion_ownership, error } = answer;
  return error === undefined ? { text, spans, insertion_ownership } as Answer : { error: failureOf(error) };
}

test('every golden and probe: the same text, segments, owners and refusals', { skip }, () => {
  const cases = allCases();
  const native = slm(['render', join(ROOT, 'models/slm-demo'), '--batch'], cases.map((one) => `${JSON.stringify(one)}\n`).join(''))
    .trimEnd().split('\n').map((line) => plain(JSON.parse(line) as Answer));
  assert.equal(native.length, cases.length);
  let nSpans = 0;
  let nRefused = 0;
  cases.forEach((one, i) => {
    const expected = native[i] ?? {};
    assert.deepEqual(answerOf(one), expected, one.template.slice(0, 80));
    nSpans += expected.spans?.length ?? 0;
    if (expected.error !== undefined) nRefused += 1;
  });
  console.log(`figures: ${cases.length} cases of ${programs.size} templates, ${nSpans} segments, ${nRefused} refusals alike`);
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
    if (!renders.has(one.template) && answerOf(one).error === undefined) renders.set(one.template, one);
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
      const mine = programOf(template);
      if (mine instanceof SlmError || program.sha256 !== digest(mine) || program.source_sha256 !== digest(template)) wrong.push(template);
    }
  };
  await Promise.all([work(), work()]);
  console.log(`figures: ${renders.size} programs, ${wrong.length} others`);
  assert.deepEqual(wrong, []);
  assert.ok(renders.size > 700);
});
