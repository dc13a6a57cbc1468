/** The largest error at each stage of the computation, in its order; beside it the same as a table. */
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';

import type { Comparison } from '../../src/protocol.js';
import { h } from './dom.js';
import { numberText } from './text.js';

export interface Stage {
  name: string;
  layer: number | undefined;
  oracle: number;
  /** Of the policy, absolute; undefined where the stage has another kind of rule. */
  limit: number | undefined;
  native: number;
  bitsDiffer: number;
}

// The order of the computation (docs/spec/comparison.md, 6).
const IN_LAYER = [
  'attn_norm', 'attn.q', 'attn.k', 'attn.v', 'attn.q_rope', 'attn.k_rope', 'attn.scores', 'attn.mask', 'attn.probs', 'attn.av',
  'attn.out', 'attn_residual', 'mlp_norm', 'mlp.gate', 'mlp.up', 'mlp.act', 'mlp.down', 'output',
];
const BEFORE = ['rope.inv_freq', 'embed'];
const AFTER = ['final_norm', 'logits'];

function place(name: string): { layer: number | undefined; role: string; order: number } {
  const layer = /^layers\.(\d+)\.(.+)$/.exec(name);
  if (layer !== null) {
    const [n, role] = [Number(layer[1]), layer[2] ?? ''];
    return { layer: n, role, order: 10 + n * 100 + (IN_LAYER.indexOf(role) + 1) };
  }
  const after = AFTER.indexOf(name);
  return { layer: undefined, role: name, order: after >= 0 ? 1e9 + after : BEFORE.indexOf(name) };
}

interface Row {
  name: string;
  max_abs: number;
  bits_differ: number;
}

export function stagesOf(oracle: Comparison, native: Comparison, policy: unknown): Stage[] {
  const { rules } = policy as { rules: { role: string; kind: string; atol?: number }[] };
  const stages = new Map<string, Stage>();
  for (const { name, max_abs: error } of oracle.arrays as unknown as Row[]) {
    const { layer, role } = place(name);
    const known = stages.get(name) ?? { name, layer, oracle: 0, limit: rules.find((rule) => rule.role === role)?.atol, native: 0, bitsDiffer: 0 };
    known.oracle = Math.max(known.oracle, error);
    stages.set(name, known);
  }
  for (const { name, max_abs: error, bits_differ: bits } of native.arrays as unknown as Row[]) {
    const known = stages.get(name);
    if (known === undefined) continue;
    known.native = Math.max(known.native, error);
    known.bitsDiffer += bits;
  }
  return [...stages.values()].sort((a, b) => place(a.name).order - place(b.name).order);
}

export function stageTable(stages: readonly Stage[]): HTMLElement {
  const head = ['Stage', 'Error against the oracle', 'Limit', 'Error against native', 'Bits that differ'].map((name) => h('th', { scope: 'col' }, name));
  const body = h('tbody');
  for (const stage of stages) {
    const numbers = [numberText(stage.oracle), stage.limit === undefined ? '' : numberText(stage.limit), numberText(stage.native), String(stage.bitsDiffer)];
    body.append(h('tr', {}, h('th', { scope: 'row', class: 'mono' }, stage.name), ...numbers.map((text) => h('td', { class: 'number' }, text))));
  }
  const table = h('table', {}, h('caption', { class: 'hidden' }, 'Largest error at each stage'), h('thead', {}, h('tr', {}, ...head)), body);
  return h('div', { class: 'scroll tall', tabindex: 0, role: 'group', 'aria-label': 'Errors as a table' }, table);
}

function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const HEIGHT = 280;

/** Draws into `box`, again when its width or the colors change. */
export function drawStages(box: HTMLElement, stages: readonly Stage[]): void {
  const x = stages.map((_, i) => i);
  const firsts = stages.flatMap(({ layer }, i) => (layer !== undefined && stages[i - 1]?.layer !== layer ? [i] : []));
  const data: uPlot.AlignedData = [x, stages.map((s) => s.oracle), stages.map((s) => s.limit ?? null), stages.map((s) => s.native)];
  let plot: uPlot | undefined;
  const draw = (): void => {
    plot?.destroy();
    const [ink, line, accent, soft, warn] = [color('--ink'), color('--line'), color('--accent'), color('--soft'), color('--content-line')];
    const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    const options: uPlot.Options = {
      width: box.clientWidth,
      height: HEIGHT,
      scales: { x: { time: false }, y: { range: (_u, _min, max) => [0, max > 0 ? max * 1.08 : 1e-6] } },
      axes: [
        { ...axis, splits: firsts, values: (_u, splits) => splits.map((i) => `layer ${stages[i]?.layer ?? ''}`), space: 10 },
        { ...axis, size: 64, values: (_u, splits) => splits.map((value) => numberText(value, 2)) },
      ],
      series: [
        { label: 'Stage', value: (_u, i) => (i === null ? '–' : (stages[i]?.name ?? '–')) },
        { label: 'against the oracle', stroke: accent, width: 2, points: { show: false }, value: (_u, v) => (v === null ? '–' : numberText(v)) },
        { label: 'limit', stroke: warn, width: 1, dash: [6, 4], points: { show: false }, spanGaps: false, value: (_u, v) => (v === null ? '–' : numberText(v)) },
        { label: 'against native', stroke: ink, width: 2, points: { show: false }, value: (_u, v) => (v === null ? '–' : numberText(v)) },
      ],
    };
    plot = new uPlot(options, data, box);
  };
  let width = 0;
  new ResizeObserver(() => {
    if (box.clientWidth === width || box.clientWidth === 0) return;
    width = box.clientWidth;
    draw();
  }).observe(box);
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
}
