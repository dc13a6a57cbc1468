// Text of models and bundles as the page shows it.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { hexBytes, numberText, piecesOf, plainText, sizeText } from '../app/src/text.js';

const shown = (text: string, options = {}): string => piecesOf(text, options).map(({ text: piece, escaped }) => (escaped ? `[${piece}]` : piece)).join('');

void test('controls and what turns the direction of writing are written out', () => {
  assert.equal(shown('a\u0000b\u001b[31m\u007f\u0085'), 'a[U+0000]b[U+001B][31m[U+007F][U+0085]');
  // Every Bidi_Control of the Unicode Character Database, PropList.txt.
  for (const code of [0x61c, 0x200e, 0x200f, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069]) {
    const name = `U+${code.toString(16).toUpperCase().padStart(4, '0')}`;
    assert.equal(shown(`x${String.fromCodePoint(code)}y`), `x[${name}]y`);
  }
  assert.equal(shown('\u2028\u{e0041}\ufffe'), '[U+2028][U+E0041][U+FFFE]');
  assert.equal(shown('\ud800'), '[U+D800]');
});

void test('ordinary text of any script stays what it is', () => {
  const text = 'naïve 東京 नमस्ते שלום مرحبا 👩\u200d🔬';
  assert.equal(shown(text), text);
  assert.equal(shown('<b>&amp;</b>'), '<b>&amp;</b>');
  assert.equal(shown('a\u200db', { all: true }), 'a[U+200D]b');
});

void test('lines stay lines where they are wanted', () => {
  assert.equal(shown('a\n\tb'), 'a[\\n][\\t]b');
  assert.equal(shown('a\n\tb\r', { keepLines: true }), 'a\n\tb[U+000D]');
});

void test('long text is cut by characters and says so', () => {
  assert.equal(plainText('😀😀😀', 2), '😀😀… (6 units)');
  assert.equal(plainText('a\u202eb'), 'a[U+202E]b');
});

void test('numbers and bytes', () => {
  assert.equal(hexBytes(Uint8Array.of(0, 255)), '00 ff');
  assert.deepEqual([0, 0.5, 2.53e-5, 1234567].map((value) => numberText(value)), ['0', '0.500', '2.53e-5', '1.23e+6']);
  assert.deepEqual([999, 2573312, 12_000_000].map(sizeText), ['999 bytes', '2.6 MB', '12 MB']);
});
