// Modules with other arithmetic are caught by the comparison of bits, with the operator named (OPS-05).
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

import { artifactPath, observe, openModel, readArtifact, ROOT, SLM, slm, WASM } from './support.js';

const work = mkdtempSync(join(tmpdir(), 'slm-teeth-'));
after(() => {
  rmSync(work, { recursive: true });
});
const cases = join(ROOT, 'vectors/slm-demo/cases.jsonl');
const native = join(work, 'native.golden');
slm(['observe', artifactPath('slm-demo'), '--cases', cases, '-o', native]);

interface Compared {
  levels: { level: string; verdict: string; checks: number; bit_equal: number }[];
  first: { place: string } | null;
}

async function compareWith(wasm: Uint8Array): Promise<{ status: number | null; result: Compared }> {
  const out = join(work, 'candidate.golden');
  writeFileSync(out, observe(await openModel(readArtifact('slm-demo'), wasm), { backend: 'wasm-scalar@node' }, readFileSync(cases)));
  const done = spawnSync(SLM, ['compare', '--json', native, out], { encoding: 'utf8', maxBuffer: 1 << 28 });
  return { status: done.status, result: JSON.parse(done.stdout) as Compared };
}

test('the module as it is built: every array has the bits of native', async () => {
  const { status, result } = await compareWith(WASM);
  assert.equal(status, 0);
  assert.equal(result.first, null);
});

for (const [name, place] of [
  ['scores-order', /^layers\.0\.attn\.scores/],
  ['linear-contracted', /^layers\.0\.attn\.[qkv]$/],
] as const) {
  test(`${name}: caught, and the operator is named`, async () => {
    const wasm = new Uint8Array(readFileSync(join(ROOT, 'build/web/teeth', `${name}.wasm`)));
    const { status, result } = await compareWith(wasm);
    assert.equal(status, 1);
    assert.match(result.first?.place ?? '', place);
  });
}
