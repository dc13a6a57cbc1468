// Subnormal numbers are kept, on input and on output of every operator, with the bits of native scalar (OPS-04).
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

import { CASES, countSubnormals, makeSubnormal, MIN_COUNT, VARIANTS } from './subnormals.js';
import { artifactPath, observe, openModel, partsOf, ROOT, slm } from './support.js';

const work = mkdtempSync(join(tmpdir(), 'slm-subnormal-'));
after(() => {
  rmSync(work, { recursive: true });
});

const BACKEND = 'wasm-scalar@node';
const AS_NATIVE: [string, string][] = [
  [BACKEND, 'native-scalar'],
  ['wasm-scalar', 'native-scalar'],
];
const casesPath = join(work, 'cases.jsonl');
writeFileSync(casesPath, CASES);
type Parts = ReturnType<typeof partsOf>;

async function observer(path: string, wasm?: Uint8Array): Promise<(taps: string[]) => Parts> {
  const model = await openModel(new Uint8Array(readFileSync(path)), wasm);
  return (taps) => partsOf(observe(model, { backend: BACKEND, taps }, readFileSync(casesPath)), AS_NATIVE);
}

function observeNatively(path: string, taps: string[]): Parts {
  const out = join(work, 'native.golden');
  slm(['observe', path, '--cases', casesPath, '--taps', taps.join(','), '-o', out]);
  return partsOf(new Uint8Array(readFileSync(out)));
}

for (const [name, { observations }] of Object.entries(VARIANTS)) {
  test(`${name}: ${observations.join(', ')}`, async () => {
    const path = makeSubnormal(name, work);
    const ours = await observer(path);
    for (const observation of observations) {
      const count = countSubnormals(ours([observation]).blobs);
      assert.ok(count >= MIN_COUNT, `${observation} has ${count} subnormal numbers`);
    }
    const [mine, native] = [ours(observations), observeNatively(path, observations)];
    assert.ok(mine.blobs.equals(native.blobs), 'arrays differ from native scalar');
    assert.equal(mine.envelope, native.envelope);
  });
}

test('a module that takes them for zero is caught here, and not with the usual weights', async () => {
  const flushing = new Uint8Array(readFileSync(join(ROOT, 'build/web/teeth/linear-flushed.wasm')));
  for (const [path, same] of [[makeSubnormal('values', work), false], [artifactPath('slm-demo'), true]] as const) {
    const flushed = (await observer(path, flushing))(['logits']).blobs;
    assert.equal(flushed.equals(observeNatively(path, ['logits']).blobs), same, path);
  }
});

test('what counts as subnormal', () => {
  const words = new Uint32Array([0, 0x8000_0000, 1, 0x807f_ffff, 0x0080_0000, 0x7f80_0000, 0x7fc0_0000]);
  assert.equal(countSubnormals(Buffer.from(words.buffer)), 2);
});
