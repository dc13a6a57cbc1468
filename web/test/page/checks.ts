// What runs in the page under test.
import { loadModel, type Model, SlmError } from '../../src/index.js';
import { expose } from './expose.js';

let model: Model | undefined;

function need(): Model {
  if (model === undefined) throw new Error('no model');
  return model;
}

function base64(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}

/** Longest task of this thread in milliseconds while `work` runs; undefined where the engine does not tell. */
async function longestTask(work: () => Promise<void>): Promise<number | undefined> {
  if (!PerformanceObserver.supportedEntryTypes.includes('longtask')) return void (await work());
  let longest = 0;
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) longest = Math.max(longest, entry.duration);
  });
  observer.observe({ type: 'longtask' });
  await work();
  await new Promise((resolve) => setTimeout(resolve, 50));
  observer.disconnect();
  return longest;
}

const checks: Record<string, (argument: never) => Promise<unknown>> = {
  async load(url: string) {
    model?.close();
    model = undefined;
    const begun = performance.now();
    model = await loadModel(url);
    const loaded = performance.now();
    await model.generate({ ids: [1] }, { maxNewTokens: 1 }).answer;
    const done = performance.now();
    return { identity: model.identity(), cache: model.cache, loadMs: loaded - begun, firstTokenMs: done - begun };
  },
  async generate(argument: { ids: number[]; sampling: object; prefillChunk: number }) {
    const generation = need().generate(
      { ids: argument.ids },
      { maxNewTokens: 200, stopAtEos: false, kv: true, sampling: argument.sampling, prefillChunk: argument.prefillChunk },
    );
    const ids: (number | null)[] = [];
    const longest = await longestTask(async () => {
      for await (const token of generation) ids.push(token.id);
    });
    const { tokens, kvSha256, bytes } = await generation.answer;
    return { tokens, kvSha256, bytes: base64(bytes), streamed: ids.filter((id) => id !== null), longest };
  },
  /** MB/s of crypto.subtle alone: so many chunks of 1 MiB, in a worker as the engine is. */
  async bareDigest(count: number) {
    const program = `onmessage = async ({ data: count }) => {
      const chunks = new Uint8Array(64 << 20).fill(7);
      const begun = performance.now();
      for (let i = 0; i < count; i++) await crypto.subtle.digest('SHA-256', chunks.subarray((i % 64) << 20, ((i % 64) + 1) << 20));
      postMessage((count * (1 << 20)) / 1000 / (performance.now() - begun));
    };`;
    const worker = new Worker(URL.createObjectURL(new Blob([program], { type: 'text/javascript' })));
    const rate = await new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = ({ message }) => reject(new Error(message));
      worker.postMessage(count);
    });
    worker.terminate();
    return rate;
  },
  /** Tokens a second as they come to the page, the first one not counted. */
  async rate(argument: { ids: number[]; maxNewTokens: number }) {
    const times: number[] = [];
    const generation = need().generate({ ids: argument.ids }, { maxNewTokens: argument.maxNewTokens, stopAtEos: false });
    for await (const token of generation) if (token.id !== null) times.push(performance.now());
    await generation.answer;
    return ((times.length - 1) * 1000) / ((times.at(-1) ?? 0) - (times[0] ?? 0));
  },
  async observe(argument: { cases: string; prefillChunk: number }) {
    return base64(await need().observe(argument));
  },
  async text() {
    const text = 'a\u0000b \u{1f600}';
    const { ids } = await need().tokenize(text, { addSpecialTokens: false });
    return { back: (await need().detokenize(ids)).text === text };
  },
  async illFormed() {
    const refused = await need().tokenize('ab\ud800').then(() => null, (fault: unknown) => fault);
    return refused instanceof SlmError ? refused.facts() : null;
  },
  /** What a caller sees when the browser ends the worker, and whether it works again after that. */
  async killed(url: string) {
    const Native = globalThis.Worker;
    let started: Worker | undefined;
    globalThis.Worker = class extends Native {
      constructor(...args: ConstructorParameters<typeof Native>) {
        super(...args);
        started = this;
      }
    };
    const victim = await loadModel(url);
    globalThis.Worker = Native;
    const generation = victim.generate({ ids: [1] }, { maxNewTokens: 200, stopAtEos: false });
    await generation.prompt;
    started?.terminate();
    const fault: unknown = await generation.answer.catch((caught: unknown) => caught);
    const later: unknown = await victim.tokenize('a').catch((caught: unknown) => caught);
    const again = await loadModel(url);
    const { tokens } = await again.generate({ ids: [1] }, { maxNewTokens: 1 }).answer;
    again.close();
    return { fault: (fault as SlmError).facts(), later: (later as SlmError).facts(), tokens: tokens.length };
  },
  async damageCache() {
    const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle('slm-models');
    const file = await folder.getFileHandle(`${need().facts.artifact}.slm`);
    const bytes = new Uint8Array(await (await file.getFile()).arrayBuffer());
    const at = bytes.length - 10;
    bytes[at] = (bytes[at] ?? 0) ^ 1;
    const writable = await file.createWritable();
    await writable.write(bytes);
    await writable.close();
    return bytes.length;
  },
  async cutCache(size: number) {
    const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle('slm-models');
    const file = await folder.getFileHandle(`${need().facts.artifact}.slm`);
    const writable = await file.createWritable({ keepExistingData: true });
    await writable.truncate(size);
    await writable.close();
    return null;
  },
  async evict() {
    await (await navigator.storage.getDirectory()).removeEntry('slm-models', { recursive: true });
    return null;
  },
  async twoAtOnce(url: string) {
    const both = await Promise.all([loadModel(url), loadModel(url)]);
    const caches = both.map(({ cache }) => cache);
    for (const one of both) one.close();
    return caches;
  },
};

expose(checks);
