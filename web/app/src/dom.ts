/** Elements without markup: text is always text. */
import { type EscapeOptions, piecesOf } from './text.js';

type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;
export type Child = Node | string | undefined;

export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? '' : String(value));
  }
  append(element, ...children);
  return element;
}

export function append(parent: Element, ...children: Child[]): void {
  parent.append(...children.filter((child): child is Node | string => child !== undefined));
}

export function on<K extends keyof HTMLElementEventMap, E extends HTMLElement>(
  element: E,
  type: K,
  handler: (event: HTMLElementEventMap[K]) => unknown,
): E {
  element.addEventListener(type, (event) => void handler(event));
  return element;
}

/** Text from a model, a bundle or a server. */
export function foreign(text: string, options: EscapeOptions = {}): HTMLElement {
  const out = h('bdi', { class: 'foreign' });
  for (const { text: piece, escaped } of piecesOf(text, options)) {
    if (!escaped) {
      out.append(piece);
      continue;
    }
    out.append(h('span', { class: 'escaped' }, piece));
    if (piece === '\\n' && options.keepLines !== true) out.append(h('wbr'));
  }
  return out;
}

/** Said by a screen reader, now. */
export function announce(text: string): void {
  const status = document.querySelector('#status');
  if (status !== null) status.textContent = text;
}

export interface TabSpec {
  id: string;
  label: string;
  panel: HTMLElement;
}

/** Tabs as ARIA has them: arrows, Home and End move; panels that are not chosen are hidden. */
export function tabs(list: HTMLElement, prefix: string, specs: TabSpec[], onChoose: (id: string) => void = () => undefined): (id: string) => void {
  const buttons = specs.map((spec) => {
    const button = h('button', { type: 'button', role: 'tab', id: `${prefix}-tab-${spec.id}`, 'aria-controls': `${prefix}-${spec.id}` }, spec.label);
    spec.panel.id = `${prefix}-${spec.id}`;
    spec.panel.setAttribute('role', 'tabpanel');
    spec.panel.setAttribute('aria-labelledby', button.id);
    on(button, 'click', () => {
      choose(spec.id);
    });
    return button;
  });
  const choose = (id: string): void => {
    specs.forEach((spec, i) => {
      const chosen = spec.id === id;
      spec.panel.hidden = !chosen;
      buttons[i]?.setAttribute('aria-selected', String(chosen));
      buttons[i]?.setAttribute('tabindex', chosen ? '0' : '-1');
    });
    onChoose(id);
  };
  on(list, 'keydown', (event) => {
    const now = buttons.findIndex((button) => button === document.activeElement);
    const to = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (to === undefined || now < 0) return;
    event.preventDefault();
    const target = (to + buttons.length) % buttons.length;
    choose(specs[target]?.id ?? '');
    buttons[target]?.focus();
  });
  list.append(...buttons);
  choose(specs[0]?.id ?? '');
  return choose;
}

/** A file to choose or to drop. */
export function filePicker(label: string, hint: string, accept: string, onFile: (file: File) => unknown): HTMLElement {
  const input = on(h('input', { type: 'file', accept, class: 'hidden-input' }), 'change', () => {
    const [file] = input.files ?? [];
    input.value = '';
    if (file !== undefined) onFile(file);
  });
  const zone = h('label', { class: 'drop' }, input, h('span', { class: 'drop-label' }, label), h('span', { class: 'hint' }, hint));
  on(zone, 'dragover', (event) => {
    event.preventDefault();
    zone.classList.add('over');
  });
  on(zone, 'dragleave', () => {
    zone.classList.remove('over');
  });
  on(zone, 'drop', (event) => {
    event.preventDefault();
    zone.classList.remove('over');
    const [file] = event.dataTransfer?.files ?? [];
    if (file !== undefined) onFile(file);
  });
  return zone;
}

export interface Meter {
  element: HTMLElement;
  set(done: number, total: number, text: string): void;
}

export function meter(label: string): Meter {
  const bar = h('progress', { max: 1, value: 0, 'aria-label': label });
  const text = h('span', { class: 'hint number' }, ' ');
  return {
    element: h('div', { class: 'meter' }, bar, text),
    set(done, total, what) {
      bar.value = total > 0 ? done / total : 0;
      text.textContent = what;
    },
  };
}
