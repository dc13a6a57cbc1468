/** A list of any length of which only what is in view has elements. */
import { h, on } from './dom.js';

const ROW = 44; // pixels; the style sheet has the same height
const AROUND = 6; // rows above and below the view

export function longList<T>(label: string, items: readonly T[], row: (item: T, index: number) => HTMLElement): HTMLElement {
  const inner = h('div', { class: 'long-rows', role: 'list' });
  const view = h('div', { class: 'long-list', tabindex: 0, role: 'group', 'aria-label': `${label}: ${items.length}` }, inner);
  // Engines bound the height of an element; the scroll position is scaled where the list is higher.
  const height = Math.min(items.length * ROW, 4_000_000);
  inner.style.height = `${height}px`;
  view.style.height = `${Math.min(items.length, 8) * ROW + 2}px`;
  let first = -1;
  const show = (): void => {
    const rows = Math.ceil(view.clientHeight / ROW);
    const range = Math.max(1, height - view.clientHeight);
    const top = Math.round((Math.min(view.scrollTop, range) / range) * Math.max(0, items.length - rows));
    const begin = Math.max(0, top - AROUND);
    if (begin === first) return;
    first = begin;
    const shown = items.slice(begin, Math.min(items.length, begin + rows + 2 * AROUND)).map((item, i) => {
      const element = row(item, begin + i);
      element.setAttribute('role', 'listitem');
      element.setAttribute('aria-setsize', String(items.length));
      element.setAttribute('aria-posinset', String(begin + i + 1));
      element.style.top = `${view.scrollTop + (begin + i - top) * ROW}px`;
      return element;
    });
    inner.replaceChildren(...shown);
  };
  on(view, 'scroll', () => {
    first = -1;
    show();
  });
  new ResizeObserver(() => {
    first = -1;
    show();
  }).observe(view);
  return view;
}
