// Text at the boundary: UTF-16 in, U+0000, records as JSON (TOK-02, TOK-04).
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, test } from 'node:test';

import { loadModel, SlmError } from '../src/node.js';
import { findLoneSurrogate, toJson } from '../src/record.js';
import { readArtifact, TEXT, WASM } from './support.js';

const model = await loadModel(readArtifact('slm-demo'));
after(() => {
  model.close();
});

test('ill-formed UTF-16 is refused with its index, everywhere', async () => {
  assert.equal(findLoneSurrogate('a\u{1f600}b'), -1);
  assert.equal(findLoneSurrogate('ab\ud83d'), 2);
  assert.equal(findLoneSurrogate('\ude00\ud83d'), 0);
  assert.equal(findLoneSurrogate('\ud83d\ud83d\ude00'), 0);
  const refused = (index: number, field: string) => (fault: unknown) => {
    assert.ok(fault instanceof SlmError);
    assert.deepEqual([fault.code, fault.index, fault.field], ['UTF8', index, field]);
    return true;
  };
  await assert.rejects(model.tokenize('ab\ud800'), refused(2, 'text'));
  await assert.rejects(
    model.render({ messages: [{ role: 'user', content: '\udc00' }] }),
    refused(0, 'context.messages[0].content'),
  );
  assert.throws(() => model.generate({ text: 'x\udfff' }), refused(1, 'text'));
  assert.throws(() => model.generate({ text: 'x' }, { stop: ['a', '\ud800'] }), refused(0, 'stop[1]'));
});

test('U+0000 is ordinary text', async () => {
  const text = 'a\u0000b\u0000';
  const { ids, offsets } = await model.tokenize(text, { addSpecialTokens: false });
  assert.equal(offsets.scalar.at(-1)?.[1], 4);
  const back = await model.detokenize(ids);
  assert.equal(back.text, text);
  assert.deepEqual([...back.bytes], [97, 0, 98, 0]);
  const generation = model.generate({ text }, { maxNewTokens: 1 });
  assert.equal((await generation.prompt).text, text);
  const rendered = await model.render({ messages: [{ role: 'user', content: text }], add_generation_prompt: true });
  assert.ok(rendered.text.includes(text));
});

test('records keep 64-bit integers and refuse what has no JSON form', () => {
  assert.equal(toJson({ seed: 18446744073709551615n, x: undefined, y: [0.1, null, true] }, ''), '{"seed":18446744073709551615,"y":[0.1,null,true]}');
  assert.throws(() => toJson({ a: { b: NaN } }, ''), (fault: unknown) => fault instanceof SlmError && fault.field === 'a.b');
  assert.throws(() => model.generate({ text: 'x' }, { sampling: { seed: 2 ** 60 } }), /bigint/);
});

test('generate streams text and ids, and can be stopped', async () => {
  const input = { messages: [{ role: 'user', content: 'Ada likes tea. Ben likes soup. What does Ben like?' }] };
  const whole = model.generate(input, { maxNewTokens: 40, kv: true, top: 3, trace: true });
  let text = '';
  const ids: number[] = [];
  for await (const token of whole) {
    text += token.text;
    if (token.id !== null) ids.push(token.id);
    if (token.id !== null) assert.equal(token.top?.ids.length, 3);
  }
  const answer = await whole.answer;
  assert.equal(answer.text, text);
  assert.deepEqual(answer.tokens, ids);
  assert.match(answer.kvSha256 ?? '', /^[0-9a-f]{64}$/);
  const prompt = await whole.prompt;
  assert.equal(prompt.rendered?.text, prompt.text);
  // The second time the prompt is there already but for its last id; nothing changes.
  const again = model.generate(input, { maxNewTokens: 40, kv: true });
  assert.deepEqual({ ...(await again.answer) }, { ...answer });
  assert.equal((await again.prompt).reused, prompt.ids.length - 1);
  // By leaving the loop, and by a signal.
  const left = model.generate({ ids: [1] }, { maxNewTokens: 200, stopAtEos: false });
  for await (const token of left) if (token.id !== null) break;
  assert.equal((await left.answer).stopReason, 'cancelled');
  const control = new AbortController();
  const stopped = model.generate({ ids: [1] }, { maxNewTokens: 200, stopAtEos: false, signal: control.signal });
  await stopped.prompt;
  control.abort();
  const partial = await stopped.answer;
  assert.equal(partial.stopReason, 'cancelled');
  assert.ok(partial.tokens.length < 200);
});

test('refusals have the code and the place of the command', async () => {
  await assert.rejects(model.generate({ ids: [4000000] }).answer, (fault: unknown) => fault instanceof SlmError && fault.code === 'RUN-TOKEN');
  await assert.rejects(model.render({}, { template: '{% bad' }), (fault: unknown) => {
    assert.ok(fault instanceof SlmError);
    assert.deepEqual([fault.stage, fault.line], ['convert', 1]);
    return true;
  });
  await assert.rejects(model.generate({ ids: [1] }, { sampling: { temperature: -1 } }).answer, (fault: unknown) => fault instanceof SlmError && fault.code === 'SMP-VALUE');
  await assert.rejects(model.observe({ cases: 'no\n' }), (fault: unknown) => fault instanceof SlmError && fault.code === 'JSON-SYNTAX');
});

test('identity names artifact, modules, backend and engine (BKD-02)', () => {
  const identity = model.identity();
  assert.equal(identity.artifact, model.facts.artifact);
  const ids = [WASM, TEXT].map((wasm) => createHash('sha256').update(wasm).digest('hex'));
  assert.deepEqual([identity.module, identity.textModule], ids);
  assert.deepEqual([identity.backend.name, identity.backend.kernel, identity.backend.profile], ['wasm-scalar@node', 'wasm-scalar', 'exact-v1']);
  assert.deepEqual([identity.engine.name, identity.engine.javascript], ['node', 'V8']);
  assert.equal(identity.engine.features.simd, true);
  assert.deepEqual(model.cache, { state: 'none', reason: 'a local file is not stored a second time' });
});
