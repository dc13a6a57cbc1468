/** Verdicts as people read them: a mark, a word, and why. */
import { foreign, h } from './dom.js';

export const LEVELS: Readonly<Record<string, string>> = {
  L0: 'identity', L1: 'tokenization', L2: 'template', L3: 'mapping', L4: 'packing', L5: 'operators', L6: 'layers', L7: 'logits',
  L8: 'sampling', L9: 'generation', L10: 'conversation', L11: 'distribution', L12: 'sealed behaviour', truth: 'no further from truth than the source',
};

const MARKS: Readonly<Record<string, readonly [mark: string, look: string]>> = {
  pass: ['✓', 'good'], holds: ['✓', 'good'], fail: ['✗', 'bad'], fails: ['✗', 'bad'], error: ['!', 'bad'], unstable: ['~', 'warn'],
};

export function verdictMark(verdict: string): HTMLElement {
  const [mark, look] = MARKS[verdict] ?? ['–', 'none'];
  return h('span', { class: `verdict ${look}` }, h('span', { 'aria-hidden': 'true', class: 'mark-sign' }, mark), verdict.replace('-', ' '));
}

export interface VerdictRow {
  name: string;
  verdict: string;
  detail: string;
}

export function verdictTable(caption: string, rows: readonly VerdictRow[]): HTMLElement {
  const body = h('tbody', { role: 'rowgroup' }); // the roles stay where narrow rows are laid out as a grid
  for (const { name, verdict, detail } of rows) {
    const what = LEVELS[name];
    body.append(
      h('tr', { role: 'row' }, h('th', { scope: 'row', role: 'rowheader' }, foreign(name), what === undefined || what === name ? undefined : h('span', { class: 'hint' }, ` ${what}`)), h('td', { role: 'cell' }, verdictMark(verdict)), h('td', { class: 'detail', role: 'cell' }, foreign(detail))),
    );
  }
  const head = ['Claim', 'Verdict', 'Why'].map((name) => h('th', { scope: 'col', role: 'columnheader' }, name));
  return h('table', { class: 'verdicts', role: 'table' }, h('caption', { class: 'hidden' }, caption), h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, ...head)), body);
}
