/** Getting a model: the shipped one, a file, or an address. */
import type { LoadModelOptions, Model, ModelSource } from '../../src/client.js';
import { SlmError } from '../../src/errors.js';
import { faultText } from './chat.js';
import { announce, filePicker, h, meter, on } from './dom.js';
import { remoteModel } from './fetching.js';
import { sizeText } from './text.js';
import { openModel } from './workers.js';

export const SHIPPED = './models/slm-demo.slm';

export class ModelChooser {
  readonly element = h('section', { class: 'card chooser', 'aria-labelledby': 'choose-title' });
  private readonly progress = meter('Loading the model');
  private readonly message = h('div', { class: 'message', role: 'alert' });
  private readonly url = h('input', { type: 'url', id: 'model-url', placeholder: 'https://…/model.slm', autocomplete: 'off', spellcheck: 'false' });
  private readonly cancel = h('button', { type: 'button', hidden: true }, 'Cancel');
  private readonly starters: HTMLButtonElement[] = [];
  private control: AbortController | undefined;

  constructor(private readonly onModel: (model: Model, shipped: boolean) => void) {
    const shipped = on(h('button', { type: 'button', class: 'primary', id: 'load-shipped' }, 'Load slm-demo (2.6 MB)'), 'click', () =>
      this.load('slm-demo', () => remoteModel(SHIPPED), true),
    );
    const byUrl = h('button', { type: 'submit' }, 'Load');
    this.starters.push(shipped, byUrl);
    const form = h('form', { class: 'row' }, h('label', { for: 'model-url', class: 'hidden' }, 'Address of a .slm file'), this.url, byUrl);
    on(form, 'submit', (event) => {
      event.preventDefault();
      const address = this.url.value.trim();
      if (address !== '') void this.load(address, () => remoteModel(address), false);
    });
    on(this.cancel, 'click', () => this.control?.abort());
    this.element.append(
      h('h2', { id: 'choose-title' }, 'Choose a model'),
      h('p', { class: 'lead' }, 'It runs here, on this device. Every chunk of the file is checked before it is used, and nothing you write leaves this page.'),
      h('div', { class: 'choices' },
        h('div', { class: 'choice' }, h('h3', {}, 'The shipped model'), h('p', { class: 'hint' }, 'Small, trained for this project; its evidence is here too.'), shipped),
        h('div', { class: 'choice' }, h('h3', {}, 'A file of yours'), filePicker('Choose a .slm file', 'or drop it here', '.slm', (file) => this.load(file.name, () => Promise.resolve(file), false))),
        h('div', { class: 'choice' }, h('h3', {}, 'An address'), h('p', { class: 'hint' }, 'The server must allow other pages to read it (CORS).'), form),
      ),
      h('div', { class: 'loading' }, this.progress.element, this.cancel),
      this.message,
    );
  }

  private async load(name: string, source: () => Promise<ModelSource>, shipped: boolean): Promise<void> {
    if (this.control !== undefined) return;
    const control = new AbortController();
    this.control = control;
    this.setBusy(true);
    this.message.replaceChildren();
    const options: LoadModelOptions = {
      signal: control.signal,
      onProgress: ({ loaded, total, fromCache }) => {
        this.progress.set(loaded, total, `${sizeText(loaded)} of ${sizeText(total)} checked${fromCache ? ', from this browser’s storage' : ''}`);
      },
    };
    try {
      const model = await openModel(await source(), options);
      announce(`${name} is loaded`);
      this.onModel(model, shipped);
    } catch (fault) {
      if (control.signal.aborted) {
        this.message.replaceChildren(h('p', { class: 'hint' }, 'Stopped. What was checked is kept where this browser can store it.'));
      } else {
        const again = on(h('button', { type: 'button' }, 'Try again'), 'click', () => this.load(name, source, shipped));
        const code = fault instanceof SlmError ? h('code', {}, fault.code) : undefined;
        this.message.replaceChildren(h('div', { class: 'fault' }, h('p', {}, faultText(fault)), h('p', { class: 'row' }, again, code)));
      }
    } finally {
      this.control = undefined;
      this.setBusy(false);
      this.progress.set(0, 1, ' ');
    }
  }

  private setBusy(busy: boolean): void {
    this.cancel.hidden = !busy;
    this.element.classList.toggle('busy', busy);
    for (const button of this.starters) button.disabled = busy;
  }
}

/** What is loaded, in one line, and all that is known of it below. */
export function modelBar(model: Model, onChange: () => void): HTMLElement {
  const { facts, cache } = model;
  const { module, textModule, backend, engine } = model.identity();
  const stored = { hit: 'from this browser’s storage, every chunk checked again', stored: 'kept in this browser’s storage', none: `not kept: ${cache.reason ?? ''}` }[cache.state];
  const rows: [string, string, boolean][] = [
    ['Artifact', facts.artifact, true],
    ['Module', module, true],
    ['Text module', textModule, true],
    ['Backend', `${backend.name}, profile ${backend.profile}, kernel ${backend.kernel}`, false],
    ['Backend id', backend.id, true],
    ['Engine', `${engine.name} ${engine.version} (${engine.javascript})`, false],
    ['SIMD', engine.features.simd ? 'there; this backend is scalar and does not use it' : 'not there; this backend is scalar and does not need it', false],
    ['Shape', `${facts.n_layers} layers, hidden ${facts.hidden_size}, ${facts.n_heads} heads (${facts.n_kv_heads} for keys and values), vocabulary ${facts.vocab_size}, context ${facts.max_positions}`, false],
    ['License', facts.license, false],
    ['Storage', stored, false],
  ];
  const list = h('dl', { class: 'identity' });
  for (const [name, value, mono] of rows) list.append(h('div', {}, h('dt', {}, name), h('dd', mono ? { class: 'mono' } : {}, value)));
  return h(
    'div',
    { class: 'model-bar' },
    h('details', {}, h('summary', {}, h('strong', {}, facts.family), ` ${sizeText(facts.file_size)} `, h('span', { class: 'mono hint' }, facts.artifact.slice(0, 12))), list),
    on(h('button', { type: 'button' }, 'Change model'), 'click', onChange),
  );
}
