/** Talking with the loaded model; beside each answer stands what it saw. */
import type { GenerateInput, Generation, Message, Model, Sampling } from '../../src/client.js';
import { SlmError } from '../../src/errors.js';
import { announce, append, foreign, h, on } from './dom.js';
import { Inspector } from './inspector.js';
import { plainText } from './text.js';
import { Vocabulary } from './vocabulary.js';

const LIKELIEST = 8;

const STOPS: Record<string, string> = {
  eos: 'the model ended its turn',
  stop_id: 'a stop token',
  stop_string: 'a stop text',
  length: 'the limit of new tokens',
  context: 'the context is full',
  cancelled: 'you stopped it',
};

function wayOn(fault: unknown): string {
  const code = fault instanceof SlmError ? fault.code : '';
  if (code === 'CTX-LENGTH') return 'The conversation no longer fits into this model; start a new chat.';
  // The module or its worker is gone, and the model with it.
  if (code === 'INTERNAL' || code === 'MEMORY') return 'Nothing was answered. Press “Change model” and load it again.';
  return 'Nothing was answered; your message can be sent again.';
}

export function faultText(fault: unknown): string {
  return fault instanceof SlmError || fault instanceof Error ? plainText(fault.message, 600) : plainText(String(fault), 600);
}

interface NumberField {
  element: HTMLElement;
  value(): number | undefined;
}

function numberField(label: string, value: string, hint: string, limits: { min: number; max?: number; step: string }): NumberField {
  const input = h('input', { type: 'number', value, inputmode: 'decimal', ...limits });
  return {
    element: h('label', { class: 'field' }, h('span', {}, label), input, h('span', { class: 'hint' }, hint)),
    value: () => (input.value === '' ? undefined : Number(input.value)),
  };
}

export class Chat {
  readonly element = h('div', { class: 'chat' });
  private readonly log = h('div', { class: 'log', tabindex: 0, role: 'region', 'aria-label': 'Conversation' });
  private readonly input = h('textarea', { id: 'message', rows: 2, placeholder: 'Write to the model', autocomplete: 'off' });
  private readonly send = h('button', { type: 'submit', class: 'primary' }, 'Send');
  private readonly stop = h('button', { type: 'button', hidden: true }, 'Stop');
  private readonly restart = h('button', { type: 'button' }, 'New chat');
  private readonly temperature = numberField('Temperature', '0', '0: always the likeliest', { min: 0, max: 10, step: '0.1' });
  private readonly topK = numberField('Top-k', '', 'empty: all', { min: 1, step: '1' });
  private readonly topP = numberField('Top-p', '', 'empty: all', { min: 0, max: 1, step: '0.01' });
  private readonly seed = numberField('Seed', '1', 'same seed, same text', { min: 0, step: '1' });
  private readonly limit = numberField('New tokens', '64', 'at most', { min: 1, max: 4096, step: '1' });
  private readonly system = h('textarea', { rows: 2, autocomplete: 'off' });
  private messages: Message[] = [];
  private running: Generation | undefined;
  private readonly vocabulary: Vocabulary;

  constructor(
    private readonly model: Model,
    examples: readonly string[],
  ) {
    this.vocabulary = new Vocabulary(model);
    const chats = model.facts.template;
    const form = h(
      'form',
      { class: 'composer' },
      h('label', { for: 'message', class: 'hidden' }, chats ? 'Message' : 'Text to go on from'),
      this.input,
      h('div', { class: 'buttons' }, this.send, this.stop, this.restart),
    );
    const settings = h(
      'details',
      { class: 'settings' },
      h('summary', {}, 'Settings'),
      h('div', { class: 'fields' }, this.temperature.element, this.topK.element, this.topP.element, this.seed.element, this.limit.element),
      chats ? h('label', { class: 'field' }, h('span', {}, 'System message'), this.system) : undefined,
    );
    on(form, 'submit', (event) => {
      event.preventDefault();
      return this.ask(this.input.value);
    });
    on(this.input, 'keydown', (event) => {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      form.requestSubmit();
    });
    on(this.stop, 'click', () => this.running?.stop());
    on(this.restart, 'click', () => {
      this.running?.stop();
      this.messages = [];
      this.showStart(examples);
      this.input.focus();
    });
    append(this.element, this.log, form, settings);
    this.showStart(examples);
  }

  close(): void {
    this.running?.stop();
  }

  private showStart(examples: readonly string[]): void {
    const what = this.model.facts.template ? 'Ask it something.' : 'This model has no chat template: it goes on from your text.';
    const start = h('div', { class: 'start' }, h('p', {}, what));
    for (const example of examples) {
      start.append(on(h('button', { type: 'button', class: 'example' }, example), 'click', () => this.ask(example)));
    }
    this.log.replaceChildren(start);
  }

  private sampling(): Sampling {
    const sampling: Sampling = { temperature: this.temperature.value() ?? 0 };
    const [topK, topP, seed] = [this.topK.value(), this.topP.value(), this.seed.value()];
    if (topK !== undefined) sampling.topK = topK;
    if (topP !== undefined) sampling.topP = topP;
    if (seed !== undefined) sampling.seed = seed;
    return sampling;
  }

  private context(text: string): { input: GenerateInput; roles: string[] } {
    if (!this.model.facts.template) return { input: { text }, roles: [] };
    const system = this.system.value;
    const messages: Message[] = [...(system === '' ? [] : [{ role: 'system', content: system }]), ...this.messages, { role: 'user', content: text }];
    return { input: { messages }, roles: messages.map(({ role }) => role) };
  }

  private async ask(text: string): Promise<void> {
    if (text === '' || this.running !== undefined) return;
    if (this.messages.length === 0) this.log.querySelector('.start')?.remove();
    const { input, roles } = this.context(text);
    const inspector = new Inspector(this.vocabulary, roles);
    const said = h('div', { class: 'answer-text', 'aria-label': 'Answer' });
    const facts = h('p', { class: 'hint number' }, ' ');
    const turn = h(
      'article',
      { class: 'turn', 'aria-label': `Turn ${this.log.children.length + 1}` },
      h('div', { class: 'said' }, h('div', { class: 'question' }, h('span', { class: 'hidden' }, 'You: '), foreign(text, { keepLines: true })), h('div', { class: 'answer' }, said, facts)),
      h('details', { class: 'saw', open: window.matchMedia('(min-width: 60rem)').matches }, h('summary', {}, 'What the model saw'), inspector.element),
    );
    this.log.append(turn);
    this.log.scrollTop = this.log.scrollHeight;
    this.input.value = '';
    this.setRunning(true);
    const begun = performance.now();
    let first = 0;
    try {
      const generation = this.model.generate(input, { maxNewTokens: this.limit.value() ?? 64, sampling: this.sampling(), top: LIKELIEST });
      this.running = generation;
      generation.prompt.then((prompt) => { inspector.setPrompt(prompt); }, () => undefined);
      let n = 0;
      for await (const token of generation) {
        if (first === 0) first = performance.now();
        inspector.addToken(token);
        const piece = h('span', { class: 'piece' }, foreign(token.text, { keepLines: true }));
        const index = n++;
        on(piece, 'click', () => { inspector.showStep(index); });
        said.append(piece);
        if (this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 200) this.log.scrollTop = this.log.scrollHeight;
      }
      const answer = await generation.answer;
      const seconds = (performance.now() - first) / 1000;
      const speed = n > 1 && seconds > 0 ? `, ${((n - 1) / seconds).toFixed(0)} a second` : '';
      facts.textContent = `${answer.tokens.length} tokens${speed}; first after ${(first - begun).toFixed(0)} ms; ended: ${STOPS[answer.stopReason] ?? answer.stopReason}`;
      for (const warning of answer.warnings) facts.after(h('p', { class: 'hint' }, foreign(warning)));
      if (answer.text !== undefined) this.messages.push({ role: 'user', content: text }, { role: 'assistant', content: answer.text });
      announce(`Answer: ${plainText(answer.text ?? 'bytes that are no text', 400)}`);
    } catch (fault) {
      said.append(h('p', { class: 'fault', role: 'alert' }, faultText(fault)));
      facts.textContent = wayOn(fault);
      this.input.value = text;
    } finally {
      this.setRunning(false);
    }
  }

  private setRunning(running: boolean): void {
    if (!running) this.running = undefined;
    this.send.hidden = running;
    this.stop.hidden = !running;
    if (running) this.stop.focus();
    else this.input.focus({ preventScroll: true });
  }
}
