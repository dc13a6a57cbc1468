// The same bits as native scalar: observations, key/value cache, sampled tokens, text (OPS-05, RUN-03, SMP-01).
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

import { artifactPath, MODELS, observe as observeSuite, openModel, partsOf, readArtifact, ROOT, run, slm } from './support.js';

const work = mkdtempSync(join(tmpdir(), 'slm-web-'));
after(() => {
  rmSync(work, { recursive: true });
});

const BACKEND = 'wasm-scalar@node';
const AS_NATIVE: [string, string][] = [
  [BACKEND, 'native-scalar'],
  ['wasm-scalar', 'native-scalar'],
];

for (const name of MODELS) {
  const casesPath = join(ROOT, 'vectors', name, 'cases.jsonl');
  const likePath = join(ROOT, 'vectors', name, 'reference.golden');

  test(`${name}: containers equal those of native scalar, for every prefill chunk`, async () => {
    const opened = await openModel(readArtifact(name));
    const cases = readFileSync(casesPath);
    const observe = (options: object, like = new Uint8Array(0)): Uint8Array =>
      observeSuite(opened, { backend: BACKEND, ...options }, cases, like);
    const native = (extra: string[]): Uint8Array => {
      const out = join(work, `${name}.golden`);
      slm(['observe', artifactPath(name), '--cases', casesPath, '-o', out, ...extra]);
      return new Uint8Array(readFileSync(out));
    };
    const whole = partsOf(observe({}), AS_NATIVE);
    const expected = partsOf(native([]));
    assert.ok(expected.blobs.length > 1 << 20);
    assert.ok(whole.blobs.equals(expected.blobs), 'arrays differ');
    assert.equal(whole.envelope, expected.envelope);
    for (const chunk of [1, 3, 16]) {
      const chunked = partsOf(observe({ prefill_chunk: chunk }), AS_NATIVE);
      assert.ok(chunked.blobs.equals(expected.blobs), `arrays differ in chunks of ${chunk}`);
      assert.equal(chunked.envelope, expected.envelope);
    }
    const like = new Uint8Array(readFileSync(likePath));
    const sliced = partsOf(observe({}, like), AS_NATIVE);
    const expectedSlices = partsOf(native(['--like', likePath]));
    assert.ok(sliced.blobs.equals(expectedSlices.blobs));
    assert.equal(sliced.envelope, expectedSlices.envelope);
  });

  test(`${name}: 200 sampled tokens, the cache and the text equal native's`, async () => {
    const opened = await openModel(readArtifact(name));
    const records = [0, 1, 2].map((seed) =>
      JSON.stringify({
        id: seed,
        ids: [1, 48, 85, 122, 159, 196, 233, 270, 307, 344, 381, 418, 455, 492, 20, 57, 94, 131],
        max_new_tokens: 200,
        stop_at_eos: false,
        kv: true,
        trace: true,
        logits: 'all',
        sampling: { temperature: [0, 0.8, 1.3][seed], top_k: [0, 40, 0][seed], top_p: 0.95, repetition_penalty: 1.1, seed: 7 + seed },
      }),
    );
    const answers = slm(['run', artifactPath(name), '--batch'], `${records.join('\n')}\n`).trimEnd().split('\n');
    for (const [i, record] of records.entries()) {
      const { id, ...expected } = JSON.parse(answers[i] ?? '') as Record<string, unknown>;
      assert.equal(id, i);
      assert.equal((expected['tokens'] as number[]).length, 200);
      for (const chunk of [0, 1, 3, 16]) {
        const { tail: _tail, warnings: _warnings, ...answer } = run(opened, record, chunk);
        assert.deepEqual(answer, expected, `seed ${i}, chunks of ${chunk}`);
      }
    }
  });

  // The halves are put together here; the command has them in one (SMP-04). Everything that `--batch` says is compared.
  test(`${name}: answers to texts, with stop strings across tokens, equal the command's`, async () => {
    const opened = await openModel(readArtifact(name));
    const base = { text: 'Once upon a time, ', max_new_tokens: 48, stop_at_eos: false, kv: true, trace: true };
    const answer = (records: object[]): Record<string, unknown>[] =>
      slm(['run', artifactPath(name), '--batch'], records.map((record) => `${JSON.stringify(record)}\n`).join(''))
        .trimEnd().split('\n').map((line) => JSON.parse(line) as Record<string, unknown>);
    const [free] = answer([base]);
    const said = free?.['text'] as string;
    assert.ok(said.length > 20, said);
    // What the answer says: within a token, over several, its very end, and what it does not say.
    const records: object[] = [said.slice(3, 4), said.slice(5, 17), said.slice(-3), `${said}!`, '\u0000'].flatMap((stop) => [
      { ...base, stop },
      { ...base, stop: ['nowhere in it', stop], sampling: { temperature: 0.9, seed: 5, top_k: 30 } },
    ]);
    records.push({ ...base, text: '' }, { ...base, text: 'a\u0000\u{1f600}e\u0301' }, { ...base, text: 'x', add_special_tokens: false, max_new_tokens: 0 });
    const expected = answer(records);
    const reasons = new Set<unknown>();
    records.forEach((record, i) => {
      const { tail, warnings: _warnings, ...mine } = run(opened, JSON.stringify(record), 3);
      const { id: _id, ...theirs } = expected[i] ?? {};
      assert.deepEqual(mine, theirs, JSON.stringify(record));
      assert.equal(typeof tail, 'string');
      reasons.add(mine['stop_reason']);
    });
    assert.ok(reasons.has('stop_string') && reasons.has('length'), [...reasons].join());
  });
}
