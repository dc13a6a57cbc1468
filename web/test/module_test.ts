// The module itself: what it imports, how large it is, how its memory is bounded.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { brotliCompressSync } from 'node:zlib';

import { HOST_CODES, SlmError } from '../src/errors.js';
import { SlmModule } from '../src/module.js';
import { EVIDENCE, openModel, readArtifact, ROOT, TEXT, WASM } from './support.js';

const compile = (wasm: Uint8Array): Promise<WebAssembly.Module> => WebAssembly.compile(wasm as Uint8Array<ArrayBuffer>);
const compiled = await compile(WASM);
const [text, evidence] = [await compile(TEXT), await compile(EVIDENCE)];

test('nothing is imported', () => {
  for (const module of [compiled, text, evidence]) assert.deepEqual(WebAssembly.Module.imports(module), []);
});

test('exports are the C ABI of slm.h, the memory and _initialize', () => {
  const header = readFileSync(`${ROOT}/src/capi/slm.h`, 'utf8');
  const functionsOf = (part: string): string[] => [...part.matchAll(/^[a-z].*?\b(slm_\w+)\(/gm)].map((match) => match[1] ?? '');
  const [ground = '', models = '', ofText = '', ofEvidence = ''] = header.split(/^\/\* ---- (?:opening an artifact|text|evidence:)/m);
  const exportsOf = (module: WebAssembly.Module): string[] => WebAssembly.Module.exports(module).map(({ name }) => name).sort();
  const all = [...functionsOf(ground), '_initialize', 'memory'];
  for (const [module, part] of [[compiled, models], [text, ofText], [evidence, ofEvidence]] as const) {
    assert.ok(functionsOf(part).length > 5);
    assert.deepEqual(exportsOf(module), [...all, ...functionsOf(part)].sort());
  }
});

test('the module that runs models: at most 600,000 bytes, 200,000 compressed', () => {
  const sizes = (name: string, wasm: Uint8Array): string => `${name} ${wasm.length} bytes, brotli ${brotliCompressSync(wasm).length}`;
  console.log(`figures: ${sizes('slm.wasm', WASM)}; ${sizes('slm-text.wasm', TEXT)}; ${sizes('slm-evidence.wasm', EVIDENCE)}`);
  assert.ok(WASM.length <= 600_000, `${WASM.length}`);
  const compressed = brotliCompressSync(WASM).length;
  assert.ok(compressed <= 200_000, `${compressed}`);
});

test('the other modules do not grow unseen', () => {
  for (const [wasm, size, compressed] of [[TEXT, 860_000, 308_000], [EVIDENCE, 790_000, 250_000]] as const) {
    assert.ok(wasm.length <= size, `${wasm.length}`);
    assert.ok(brotliCompressSync(wasm).length <= compressed);
  }
});

test("the host's error codes are those of the table", () => {
  const table = readFileSync(`${ROOT}/src/base/errors.def`, 'utf8');
  for (const [code, number] of Object.entries(HOST_CODES)) assert.match(table, new RegExp(`"${code}", ${number},`), code);
});

/** The module with another upper bound of its memory: so many pages more than it begins with. */
function withMorePages(pages: number): Uint8Array {
  const bytes = [...WASM];
  const leb = (at: number): [number, number] => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = bytes[at++] ?? 0;
      value += (byte & 127) * 2 ** shift;
      if (byte < 128) return [value, at];
    }
  };
  const encode = (value: number): number[] => (value < 128 ? [value] : [(value & 127) | 128, ...encode(Math.floor(value / 128))]);
  for (let at = 8; at < bytes.length; ) {
    const id = bytes[at];
    const [size, begin] = leb(at + 1);
    if (id === 5) {
      const [count, first] = leb(begin);
      assert.equal(count, 1);
      assert.equal(bytes[first], 1, 'the memory has no upper bound');
      const [min] = leb(first + 1);
      const body = [1, 1, ...encode(min), ...encode(min + pages)];
      bytes.splice(at, begin + size - at, 5, ...encode(body.length), ...body);
      return Uint8Array.from(bytes);
    }
    at = begin + size;
  }
  throw new Error('no memory section');
}

test('a model that does not fit is MEMORY with the sizes, and no trap', async () => {
  const bytes = readArtifact('slm-demo');
  const { core, words } = await openModel(bytes);
  for (const { memoryBytes } of [core, words]) assert.ok(memoryBytes < 64 << 20, `${memoryBytes}`);
  // Less than the file: found before anything is read.
  await assert.rejects(openModel(bytes, withMorePages(8)), (fault: unknown) => {
    assert.ok(fault instanceof SlmError);
    assert.equal(fault.code, 'MEMORY');
    assert.match(fault.message, new RegExp(`the artifact has ${bytes.length} bytes; memory in use: \\d+ bytes`));
    return true;
  });
  // Room for the file, not for what is made of it: somewhere in a call.
  const pages = Math.ceil(bytes.length / 65536) + 4;
  await assert.rejects(
    (async () => {
      (await openModel(bytes, withMorePages(pages))).openSession(0);
    })(),
    (fault: unknown) => fault instanceof SlmError && fault.code === 'MEMORY' && /\d+ bytes/.test(fault.message),
  );
});

test('a header that states more than the memory holds is MEMORY with its size', async () => {
  const { crcOf, withFileSize } = await import('./header.js');
  assert.equal(crcOf(readArtifact('slm-demo').subarray(0, 184)), new DataView(readArtifact('slm-demo').buffer).getUint32(184, true));
  const module = await SlmModule.instantiate(compiled);
  const header = withFileSize(readArtifact('slm-demo').subarray(0, 192), 2 ** 40);
  assert.throws(
    () => module.open('slm_artifact_new', header, 0xffff_ffff_ffff_ffffn),
    (fault: unknown) => fault instanceof SlmError && fault.code === 'MEMORY' && fault.message.includes('at most 4294967296'),
  );
});
