// Published templates, their contexts and probes, and how an answer to one of them is compared.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';

import type { Answer, Case } from './page/answers.js';
import { ROOT } from './support.js';

const VECTORS = join(ROOT, '../shared/vectors/templates');
export const CLOCK = '2024-07-26T13:45:09';
export const skip = existsSync(VECTORS) ? false : 'shared/vectors/templates is not beside this tree';

const read = (name: string): string => readFileSync(join(VECTORS, name), 'utf8');

/** Every golden, in the order of the file. */
export function goldens(): Case[] {
  const contexts = JSON.parse(read('contexts.json')) as Record<string, object>;
  const sources = new Map(readdirSync(join(VECTORS, 'files')).map((name) => [name.replace('.jinja', ''), read(`files/${name}`)]));
  const rows = gunzipSync(readFileSync(join(VECTORS, 'goldens.jsonl.gz'))).toString().trimEnd().split('\n');
  return rows.map((line) => {
    const { t, c } = JSON.parse(line) as { t: string; c: string };
    const [template, context] = [sources.get(t.slice(0, 16)), contexts[c]];
    assert.ok(template !== undefined && context !== undefined, line.slice(0, 100));
    return { template, context, clock: CLOCK };
  });
}

export function probes(): Case[] {
  return (JSON.parse(read('probes.json')) as Case[]).map(({ template, context }) => ({ template, context: { messages: [], ...context }, clock: CLOCK }));
}

/** A batch of the native command, answered. */
export function linesOf(output: string): Answer[] {
  return output.trimEnd().split('\n').map((line) => JSON.parse(line) as Answer);
}
