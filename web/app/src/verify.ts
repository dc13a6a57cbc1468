/** Verify on this device: the golden vectors, run here and now. */
import type { Evidence, Model } from '../../src/client.js';
import type { Comparison, Promoted, ReceiptParts } from '../../src/protocol.js';
import { faultText } from './chat.js';
import { drawStages, stagesOf, stageTable } from './chart.js';
import { announce, filePicker, foreign, h, meter, on } from './dom.js';
import { fetchFile } from './fetching.js';
import { sizeText } from './text.js';
import { verdictMark, verdictTable } from './verdicts.js';
import { startEvidence } from './workers.js';

export const EVIDENCE = './models/slm-demo.evidence';
export const HONESTY =
  'What this does not prove: that the device is honest. A receipt shows that these observations, if they were made as it says, pass; a changed browser could report another’s. Run it on a device you trust, or compare receipts.';

export interface VerifyHost {
  /** The model that is loaded, or else the shipped one. */
  model(): Promise<Model>;
}

function saveLink(name: string, bytes: Uint8Array, label: string): HTMLAnchorElement {
  const url = URL.createObjectURL(new Blob([bytes as Uint8Array<ArrayBuffer>], { type: 'application/octet-stream' }));
  return h('a', { class: 'button', href: url, download: name }, label);
}

export class VerifyView {
  readonly element = h('div', { class: 'stack' });
  private readonly start = h('button', { type: 'button', class: 'primary', id: 'verify-start' }, 'Verify on this device');
  private readonly progress = meter('Cases that were run');
  private readonly output = h('div', { class: 'stack', id: 'verify-output' });
  private readonly card: HTMLElement;
  private own: Uint8Array | undefined;
  private running = false;

  constructor(private readonly host: VerifyHost) {
    on(this.start, 'click', () => this.run());
    const chosen = h('p', { class: 'hint' }, ' ');
    const picker = filePicker('Other evidence', 'for another model: the bundle of its promotion', '.bundle,.evidence', async (file) => {
      this.own = new Uint8Array(await file.arrayBuffer());
      chosen.replaceChildren('Will be verified against ', foreign(file.name), ', ', sizeText(file.size), '.');
    });
    this.card = h(
      'section',
      { class: 'card stack', 'aria-labelledby': 'verify-title' },
      h('h2', { id: 'verify-title' }, 'Verify on this device'),
      h('p', { class: 'lead' }, 'Runs the golden vectors here and now: every tokenized text, every stage of every layer and every token is compared with what the pinned source framework computed, and, bit by bit, with the native reference.'),
      h('div', { class: 'row wrap' }, this.start, h('details', {}, h('summary', {}, 'Evidence'), picker, chosen)),
      h('div', { class: 'loading' }, this.progress.element),
    );
    this.element.append(this.card, this.output);
  }

  private async run(): Promise<void> {
    if (this.running) return;
    this.running = true;
    this.start.disabled = true;
    this.card.classList.add('busy');
    this.output.replaceChildren();
    let evidence: Evidence | undefined;
    try {
      evidence = await startEvidence();
      await this.verify(evidence);
    } catch (fault) {
      this.output.replaceChildren(h('div', { class: 'fault', role: 'alert' }, h('p', {}, faultText(fault)), h('p', {}, 'Nothing was claimed. Press the button to try again.')));
    } finally {
      evidence?.close();
      this.running = false;
      this.start.disabled = false;
      this.card.classList.remove('busy');
    }
  }

  private async verify(evidence: Evidence): Promise<void> {
    const begun = performance.now();
    this.progress.set(0, 1, 'reading the model and its evidence');
    const model = await this.host.model();
    const { receipt: base } = await evidence.readBundle(this.own ?? (await fetchFile(EVIDENCE)));
    const parts = await evidence.parts(base);
    const identity = model.identity();
    if (parts.artifact.root !== identity.artifact) {
      throw new Error(`this evidence is of artifact ${parts.artifact.root.slice(0, 12)}; loaded is ${identity.artifact.slice(0, 12)}. Give the bundle of this model’s promotion under “Evidence”`);
    }
    const { executable_sha256, text_module_sha256 } = __MODULE_BUILD__;
    if (identity.module !== executable_sha256 || identity.textModule !== text_module_sha256) {
      throw new Error(`this page was built for other modules than those that ran (${identity.module.slice(0, 12)}, ${identity.textModule.slice(0, 12)})`);
    }
    const cases = new TextDecoder().decode(await evidence.blob(parts.cases));
    const reference = parts.evidence.find(({ mode }) => mode === 'reference');
    if (reference === undefined) throw new Error('this evidence holds no run of the reference');
    const like = await evidence.blob(reference.blob);
    const candidate = await model.observe({
      cases,
      like,
      onCase: (done, total) => {
        this.progress.set(done, total, `${done} of ${total} cases run`);
      },
    });
    const observed = performance.now();
    this.progress.set(1, 1, 'comparing');
    const promoted = await evidence.promote({ base, candidate, build: __MODULE_BUILD__, identity });
    const native = await evidence.compare({ references: [await evidence.blob(parts.observation)], candidate });
    const policy: unknown = JSON.parse(new TextDecoder().decode(await evidence.blob(parts.policy)));
    const small = await evidence.writeBundle(promoted.receipt, base);
    const whole = await evidence.writeBundle(promoted.receipt);
    const times = `${((observed - begun) / 1000).toFixed(1)} s to run, ${((performance.now() - observed) / 1000).toFixed(1)} s to compare`;
    this.show(parts, promoted, native, policy, { small, whole }, `${identity.engine.name} ${identity.engine.version}`, times);
  }

  private show(
    parts: ReceiptParts,
    { receipt, holds, comparison }: Promoted,
    native: Comparison,
    policy: unknown,
    bundles: { small: Uint8Array; whole: Uint8Array },
    engine: string,
    times: string,
  ): void {
    const rows = comparison.levels.map(({ level, verdict, summary }) => ({ name: level, verdict, detail: summary }));
    rows.push({ name: 'truth', verdict: comparison.truth.verdict, detail: comparison.truth.summary });
    const count = (verdict: string): number => rows.filter((row) => row.verdict === verdict).length;
    const stages = stagesOf(comparison, native, policy);
    const differing = (native.arrays as unknown as { bits_differ: number }[]).filter((array) => array.bits_differ > 0).length;
    const same = native.levels.every(({ verdict }) => verdict === 'pass' || verdict === 'not-claimed') && differing === 0;
    const verdict = holds ? (same ? 'holds' : 'fails') : 'fails';
    const headline = !holds
      ? 'This device does not compute what the source framework computes.'
      : same
        ? 'This device computes what the source framework computes, with the bits of the native reference.'
        : 'Within the limits, but not with the bits of the native reference.';
    const bits = `${native.arrays.length - differing} of ${native.arrays.length} arrays and ${native.tokens_compared} tokens equal bit by bit`;
    const box = h('div', { class: 'chart', role: 'img', 'aria-label': `Largest error at each of ${stages.length} stages: against the oracle, its limit, and against native; the table below has the numbers` });
    const name = `slm-${engine.split(' ')[0] ?? ''}-${receipt.slice(0, 12)}`;
    this.output.replaceChildren(
      h(
        'section',
        { class: 'card stack', 'aria-label': 'Result' },
        h('p', { class: 'headline' }, verdictMark(verdict), h('strong', {}, headline)),
        h('p', { class: 'hint' }, `${count('pass')} levels pass, ${count('fail') + count('error')} fail, ${count('unstable')} unstable, ${count('not-claimed')} not claimed. Against native: ${bits}. Model `, foreign(parts.source.name), ` on ${engine}; ${times}.`),
        h('figure', { class: 'stack' }, h('figcaption', {}, 'Largest error at each stage, over all cases'), box, h('details', {}, h('summary', {}, 'The same as a table'), stageTable(stages))),
        h('h3', {}, 'Verdict by level'),
        h('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'Verdict by level' }, verdictTable('Verdict by level', rows)),
        h('h3', {}, 'Receipt'),
        h('p', {}, 'Id ', h('span', { class: 'mono', id: 'receipt-id' }, receipt)),
        h('p', { class: 'row wrap' }, saveLink(`${name}.bundle`, bundles.small, `Save the receipt (${sizeText(bundles.small.length)})`), saveLink(`${name}-whole.bundle`, bundles.whole, `With all evidence (${sizeText(bundles.whole.length)})`)),
        h('p', { class: 'hint' }, 'Anyone can check it: ', h('code', {}, `slm verify ${name}-whole.bundle`), '. The small one needs a store with the model’s promotion.'),
        h('p', { class: 'honesty' }, HONESTY),
      ),
    );
    drawStages(box, stages);
    announce(headline);
  }
}
