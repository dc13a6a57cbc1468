/** Beside each answer: what the model really saw, and how each token was chosen. */
import type { Prompt, Token, Top } from '../../src/client.js';
import { append, foreign, h, tabs } from './dom.js';
import { hexBytes, numberText, plainText } from './text.js';
import { textOf, type Vocabulary } from './vocabulary.js';

let count = 0;

function ownerLabel(owner: string, roles: readonly string[]): string {
  const message = /^messages\[(\d+)\]\.(\w+)$/.exec(owner);
  if (message === null) return plainText(owner, 40);
  const role = roles[Number(message[1])];
  return `${role === undefined ? 'message' : plainText(role, 20)} ${Number(message[1]) + 1}${message[2] === 'content' ? '' : ` ${message[2]}`}`;
}

function tokenText(bytes: Uint8Array): HTMLElement {
  if (bytes.length === 0) return h('span', { class: 'hint' }, 'no bytes');
  const text = textOf(bytes);
  if (text === undefined) return h('span', { class: 'escaped' }, 'part of a character');
  return h('span', { class: 'token-text' }, foreign(text, { all: true }));
}

/** A cell or label that is filled once the model has said what the id stands for. */
function later(vocabulary: Vocabulary, id: number, fill: (bytes: Uint8Array) => void): void {
  vocabulary.bytes(id).then(fill, () => undefined); // the model was closed: the id alone is shown
}

export class Inspector {
  readonly element: HTMLElement;
  private readonly promptPanel = h('div', { class: 'panel', tabindex: 0 });
  private readonly tokenPanel = h('div', { class: 'panel', tabindex: 0 });
  private readonly stepList = h('ol', { class: 'steps' });
  private readonly choose: (id: string) => void;
  private n = 0;

  constructor(
    private readonly vocabulary: Vocabulary,
    private readonly roles: readonly string[],
  ) {
    const list = h('div', { role: 'tablist', 'aria-label': 'What the model saw', class: 'subtabs' });
    const note = 'Probabilities are the model’s own, at temperature 1, before any filter. The margin is the distance of the two largest logits.';
    const stepPanel = h('div', { class: 'panel', tabindex: 0 }, h('p', { class: 'hint' }, note), this.stepList);
    const panels = h('div', {}, this.promptPanel, this.tokenPanel, stepPanel);
    const waiting = (): HTMLElement => h('p', { class: 'hint' }, 'The prompt is being read…');
    this.promptPanel.append(waiting());
    this.tokenPanel.append(waiting());
    this.element = h('section', { class: 'inspector', 'aria-label': 'What the model saw' }, list, panels);
    this.choose = tabs(list, `see${++count}`, [
      { id: 'prompt', label: 'Prompt', panel: this.promptPanel },
      { id: 'tokens', label: 'Tokens', panel: this.tokenPanel },
      { id: 'steps', label: 'Steps', panel: stepPanel },
    ]);
  }

  setPrompt(prompt: Prompt): void {
    this.promptPanel.replaceChildren(...this.promptView(prompt));
    this.tokenPanel.replaceChildren(...this.tokensView(prompt));
  }

  addToken(token: Token): void {
    if (token.id === null) return;
    this.stepList.append(this.stepView(token.id, token.bytes, token.top, ++this.n));
  }

  showStep(index: number): void {
    this.choose('steps');
    const step = this.stepList.children[index];
    for (const other of this.stepList.children) other.classList.toggle('chosen', other === step);
    step?.scrollIntoView({ block: 'nearest' });
  }

  private promptView(prompt: Prompt): HTMLElement[] {
    const text = prompt.rendered?.text ?? prompt.text;
    if (text === undefined) return [h('p', {}, `${prompt.ids.length} token ids, given as they are.`)];
    const bytes = new TextEncoder().encode(text);
    const spans = prompt.rendered?.spans ?? [{ begin: 0, end: bytes.length, owner: 'text' }];
    const view = h('div', { class: 'rendered', tabindex: 0, role: 'group', 'aria-label': 'Rendered prompt' });
    for (const { begin, end, owner } of spans) {
      if (begin === end) continue;
      const template = owner === 'template';
      const label = template ? 'template' : ownerLabel(owner, this.roles);
      view.append(
        h(
          'span',
          { class: template ? 'span-template' : 'span-content' },
          template ? h('span', { class: 'hidden' }, '[template] ') : h('span', { class: 'owner' }, label),
          this.lines(textOf(bytes.subarray(begin, end)) ?? hexBytes(bytes.subarray(begin, end))),
        ),
      );
    }
    const legend = h(
      'p',
      { class: 'hint legend' },
      h('span', { class: 'span-template' }, 'from the template'),
      h('span', { class: 'span-content' }, h('span', { class: 'owner' }, 'who'), 'content'),
    );
    const reused = prompt.reused > 0 ? `; the first ${prompt.reused} were still in the key/value cache` : '';
    return [legend, view, h('p', { class: 'hint' }, `${bytes.length} bytes, ${prompt.ids.length} tokens${reused}.`)];
  }

  // Line feeds are written out and broken at.
  private lines(text: string): HTMLElement {
    const out = h('span', {});
    text.split('\n').forEach((line, i) => {
      if (i > 0) append(out, h('span', { class: 'escaped' }, '\\n'), '\n');
      if (line !== '') out.append(foreign(line, { all: true }));
    });
    return out;
  }

  private tokensView(prompt: Prompt): HTMLElement[] {
    const text = prompt.rendered?.text ?? prompt.text;
    const source = text === undefined ? undefined : new TextEncoder().encode(text);
    const body = h('tbody');
    prompt.ids.forEach((id, i) => {
      const span = prompt.offsets?.byte[i];
      const cell = h('td', {}, '…');
      const bytesCell = h('td', { class: 'mono' }, '…');
      later(this.vocabulary, id, (bytes) => {
        cell.replaceChildren(tokenText(bytes));
        bytesCell.replaceChildren(hexBytes(bytes));
      });
      const where = span === undefined || source === undefined ? '' : span[0] === span[1] ? 'added' : `${span[0]}–${span[1]}`;
      body.append(h('tr', {}, h('td', { class: 'number' }, String(i)), cell, h('td', { class: 'number' }, String(id)), bytesCell, h('td', { class: 'number' }, where)));
    });
    const head = ['#', 'Token', 'Id', 'Bytes', 'Covers'].map((name) => h('th', { scope: 'col' }, name));
    const table = h('table', {}, h('caption', { class: 'hidden' }, 'Tokens of the prompt'), h('thead', {}, h('tr', {}, ...head)), body);
    return [h('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'Tokens of the prompt' }, table)];
  }

  private stepView(id: number, made: Uint8Array, top: Top | undefined, n: number): HTMLElement {
    const rank = top?.ids.indexOf(id) ?? -1;
    const probability = rank >= 0 ? top?.probabilities[rank] : undefined;
    const name = h('span', { class: 'token-text' }, '…');
    const hex = h('span', { class: 'mono' }, hexBytes(made));
    later(this.vocabulary, id, (bytes) => {
      name.replaceChildren(tokenText(bytes));
      hex.replaceChildren(hexBytes(bytes));
    });
    const facts = h(
      'span',
      { class: 'facts' },
      h('span', {}, `id ${id}`),
      ' ',
      hex,
      ' ',
      h('span', {}, probability === undefined ? 'not among the likeliest' : `p ${numberText(probability)}`),
      ' ',
      top === undefined ? undefined : h('span', {}, `margin ${numberText(top.margin)}`),
    );
    const bars = h('ul', { class: 'bars' });
    top?.ids.forEach((other, i) => {
      const p = top.probabilities[i] ?? 0;
      const label = h('span', { class: 'token-text' }, '…');
      later(this.vocabulary, other, (bytes) => {
        label.replaceChildren(tokenText(bytes));
      });
      const bar = h('span', { class: 'fill' });
      bar.style.inlineSize = `${Math.max(0.5, 100 * p)}%`;
      bars.append(
        h(
          'li',
          other === id ? { class: 'taken' } : {},
          label,
          ' ',
          h('span', { class: 'track', 'aria-hidden': 'true' }, bar),
          h('span', { class: 'number' }, numberText(p)),
          other === id ? h('span', { class: 'hidden' }, ' chosen') : undefined,
        ),
      );
    });
    return h('li', { class: 'step' }, h('div', { class: 'step-head' }, h('span', { class: 'number hint' }, String(n)), ' ', name, ' ', facts), bars);
  }
}
