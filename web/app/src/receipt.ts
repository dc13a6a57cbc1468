/** Somebody's receipt or evidence bundle: everything in it is recomputed here; nothing it says is believed. */
import type { Evidence } from '../../src/client.js';
import type { ReceiptParts, Verification } from '../../src/protocol.js';
import { faultText } from './chat.js';
import { announce, append, filePicker, foreign, h } from './dom.js';
import { fetchFile } from './fetching.js';
import { longList } from './list.js';
import { plainText, sizeText } from './text.js';
import { verdictMark, verdictTable } from './verdicts.js';
import { EVIDENCE, HONESTY } from './verify.js';
import { startEvidence } from './workers.js';

const MAX_BUNDLE = 1 << 30;

export class ReceiptView {
  readonly element = h('div', { class: 'stack' });
  private readonly output = h('div', { class: 'stack', id: 'receipt-output' });
  private running = false;

  constructor() {
    this.element.append(
      h(
        'section',
        { class: 'card stack', 'aria-labelledby': 'receipt-title' },
        h('h2', { id: 'receipt-title' }, 'Check a receipt'),
        h('p', { class: 'lead' }, 'A receipt or an evidence bundle of anyone: every object is hashed again and every verdict is computed again from the raw arrays, on this device. A verdict that stands in the file is never an input.'),
        filePicker('Choose a receipt or bundle', 'or drop it here', '.bundle,.evidence', (file) => this.check(file)),
      ),
      this.output,
    );
  }

  private async check(file: File): Promise<void> {
    if (this.running) return;
    this.running = true;
    this.output.replaceChildren(h('p', { class: 'card' }, 'Hashing and computing again…'));
    let evidence: Evidence | undefined;
    try {
      if (file.size > MAX_BUNDLE) throw new Error(`${sizeText(file.size)} are more than this page reads; use the command`);
      evidence = await startEvidence();
      const { receipt } = await evidence.readBundle(new Uint8Array(await file.arrayBuffer()));
      let verification = await evidence.verifyKept(receipt);
      let added = '';
      if (verification.problems.some(({ code }) => code === 'GRAPH-MISSING-CHILD')) {
        added = await this.addShipped(evidence);
        verification = await evidence.verifyKept(receipt);
      }
      const parts = await evidence.parts(receipt).catch(() => undefined);
      this.show(file, verification, parts, added);
    } catch (fault) {
      this.output.replaceChildren(h('div', { class: 'fault', role: 'alert' }, h('p', {}, 'Refused: ', foreign(file.name), ' is no bundle that can be checked.'), h('p', {}, faultText(fault))));
    } finally {
      evidence?.close();
      this.running = false;
    }
  }

  // A receipt alone stands on a promotion's objects; those of the shipped model are here.
  private async addShipped(evidence: Evidence): Promise<string> {
    try {
      await evidence.readBundle(await fetchFile(EVIDENCE));
      return ' Objects that the file lacks were taken from the shipped model’s evidence, where that has them.';
    } catch (fault) {
      return ` Objects are missing, and the shipped evidence could not be read (${faultText(fault)}).`;
    }
  }

  private show(file: File, verification: Verification, parts: ReceiptParts | undefined, added: string): void {
    const failing = verification.claims.filter(({ state }) => state === 'fails' || state === 'unstable').length;
    const holding = verification.claims.filter(({ state }) => state === 'holds').length;
    const headline = verification.holds ? `Everything that it claims holds: ${holding} claims.` : `It does not hold: ${failing} claims fail, ${verification.n_problems} problems.`;
    const section = h(
      'section',
      { class: 'card stack', 'aria-label': 'Result' },
      h('p', { class: 'headline' }, verdictMark(verification.holds ? 'holds' : 'fails'), h('strong', {}, headline)),
      h('p', { class: 'hint' }, foreign(plainText(file.name, 80)), `: ${verification.nodes} nodes, ${verification.blobs} blobs, ${sizeText(verification.bytes)} hashed again.${added}`),
    );
    if (parts !== undefined) section.append(this.stated(verification, parts));
    append(section, h('h3', {}, 'Claims, computed again'));
    section.append(
      verification.claims.length > 200
        ? longList('Claims', verification.claims, ({ claim, state, detail }) => h('div', {}, verdictMark(state), ' ', foreign(plainText(`${claim}: ${detail}`))))
        : h('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'Claims' }, verdictTable('Claims', verification.claims.map(({ claim, state, detail }) => ({ name: claim, verdict: state, detail: plainText(detail, 400) })))),
    );
    if (verification.n_problems > 0) {
      const more = verification.n_problems - verification.problems.length;
      append(
        section,
        h('h3', {}, `Problems: ${verification.n_problems}`),
        longList('Problems', verification.problems, ({ code, field, message }) => h('div', {}, h('code', {}, code), ' ', foreign(plainText(field, 80)), ' ', foreign(plainText(message)))),
        more > 0 ? h('p', { class: 'hint' }, `The first ${verification.problems.length} are listed; ${more} more are of the same file.`) : undefined,
      );
    }
    append(section, h('h3', {}, 'Not proved'), h('p', { class: 'hint' }, foreign(verification.trusted_without_proof)), h('p', { class: 'honesty' }, HONESTY));
    this.output.replaceChildren(section);
    announce(headline);
  }

  private stated({ receipt }: Verification, parts: ReceiptParts): HTMLElement {
    const engine = parts.engine === null ? '' : ['name', 'version', 'javascript'].map((key) => String(parts.engine?.[key] ?? '')).join(' ');
    const rows: [string, string, boolean][] = [
      ['Receipt', receipt, true],
      ['Source', `${parts.source.name}, revision ${parts.source.revision}`, false],
      ['Artifact', parts.artifact.root, true],
      ['Backend', parts.backend, false],
      ['Engine', engine === '' ? 'none: a native run' : engine, false],
      ['Program', parts.module, true],
      ...(parts.text_module === null ? [] : [['Its text module', parts.text_module, true] as [string, string, boolean]]),
    ];
    const list = h('dl', { class: 'identity' });
    for (const [name, value, mono] of rows) list.append(h('div', {}, h('dt', {}, name), h('dd', mono ? { class: 'mono' } : {}, foreign(plainText(value, 160)))));
    return h('div', { class: 'stack' }, h('h3', {}, 'What the file says of itself'), list);
  }
}
