/**
 * Sources whose arithmetic runs below 2^-126: slm-demo with some of its tensors multiplied by a power of two. Where an
 * engine took such numbers for zero, the observations named here would be zero (OPS-04).
 */
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { ROOT, slm } from './support.js';

interface Variant {
  /** Which tensors are multiplied by 2^exponent. */
  scaled: [tensors: RegExp, exponent: number][];
  /** Observations that are to hold subnormal numbers, and why the operator gives them. */
  observations: string[];
}

export const VARIANTS: Record<string, Variant> = {
  // The head and the values are small: sums of products in `linear`, `weighted_sum` over the values.
  values: {
    scaled: [[/^model\.norm\.weight$/, -130], [/\.v_proj\./, -130]],
    observations: ['layers.0.attn.v', 'layers.3.attn.v', 'layers.0.attn.av', 'final_norm', 'logits'],
  },
  // What the layers hand on is small from the embedding to the end: the norm of small numbers, rotated keys, their
  // products with queries, the sums of a residual, the gate's product.
  residual: {
    scaled: [[/\.embed_tokens\.weight$/, -130], [/\.k_proj\./, -130], [/\.o_proj\./, -130]],
    observations: [
      'embed', 'layers.0.attn_norm', 'layers.0.attn.k', 'layers.0.attn.k_rope', 'layers.0.attn.scores', 'layers.0.attn.out',
      'layers.0.attn_residual', 'layers.0.mlp_norm', 'layers.0.mlp.up', 'layers.0.output', 'layers.3.attn_residual', 'final_norm', 'logits',
    ],
  },
  // Scores far apart: the softmax's exponentials underflow by degrees.
  softmax: {
    scaled: [[/\.q_proj\./, 5]],
    observations: ['layers.0.attn.probs'],
  },
};

/** One short prompt, as a cases file. */
export const CASES = '{"id":"stride","ids":[0,300,5,7,271,12,44,508]}\n';
/** At least so many subnormal numbers are in each observation: one a position. */
export const MIN_COUNT = 8;

const SAFETENSORS = 'model.safetensors';

/** Writes the variant's artifact to `folder`/NAME.slm. */
export function makeSubnormal(name: string, folder: string): string {
  const variant = VARIANTS[name];
  if (variant === undefined) throw new Error(`no variant ${name}`);
  const from = join(ROOT, 'models/slm-demo');
  const source = join(folder, `${name}.source`);
  mkdirSync(source, { recursive: true });
  for (const file of readdirSync(from)) copyFileSync(join(from, file), join(source, file));
  const bytes = readFileSync(join(from, SAFETENSORS));
  const begin = 8 + Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.subarray(8, begin).toString('utf8')) as Record<string, { data_offsets?: [number, number] }>;
  for (const [pattern, exponent] of variant.scaled) {
    const found = Object.entries(header).filter(([tensor]) => pattern.test(tensor));
    if (found.length === 0) throw new Error(`no tensor is called like ${pattern.source}`);
    for (const [, { data_offsets: [low, high] = [0, 0] }] of found) {
      for (let at = begin + low; at < begin + high; at += 4) bytes.writeFloatLE(bytes.readFloatLE(at) * 2 ** exponent, at);
    }
  }
  writeFileSync(join(source, SAFETENSORS), bytes);
  const out = join(folder, `${name}.slm`);
  slm(['--store', join(folder, `${name}.store`), 'convert', source, '-o', out]);
  return out;
}

/** How many of the words of a container's arrays are subnormal numbers of f32. */
export function countSubnormals(blobs: Buffer): number {
  let count = 0;
  for (let at = 0; at + 4 <= blobs.length; at += 4) {
    const word = blobs.readUInt32LE(at);
    if ((word & 0x7f80_0000) === 0 && (word & 0x007f_ffff) !== 0) count++;
  }
  return count;
}
