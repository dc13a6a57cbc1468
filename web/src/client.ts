/**
 * The page's side: `loadModel`, and a Model whose work all happens in a worker.
 */
import { fromBase64, toBase64 } from './base64.js';
import { abortError, hostError, SlmError } from './errors.js';
import type { CacheReport, Progress } from './load.js';
import type { BundleFacts, Comparison, FromWorker, Identity, LoadAnswer, ModelFacts, Promoted, ReceiptParts, Request, ToWorker, Verification, WorkerEvent } from './protocol.js';
import { type RecordValue, toJson } from './record.js';
import type { SourceMessage } from './source.js';

/** A worker, of a browser or of Node. */
export interface Port {
  post(message: ToWorker, transfer?: Transferable[]): void;
  onMessage(handler: (message: FromWorker) => void): void;
  /** Called once when the worker is gone for another reason than close(). */
  onDeath(handler: (reason: string) => void): void;
  close(): void;
}

/** Bytes that another document fetches and sends through the port (serveSource in remote.ts): no network is needed here. */
export interface RemoteModel {
  port: MessagePort;
  name: string;
}
export type ModelSource = string | URL | Blob | ArrayBuffer | Uint8Array | RemoteModel;

export interface LoadModelOptions {
  /** Stops the load; the promise rejects with an AbortError. */
  signal?: AbortSignal;
  onProgress?: (progress: Progress) => void;
  /** Positions of the key/value cache; as many as the artifact allows where absent. */
  maxPositions?: number;
}

export interface Message {
  role: string;
  content: string;
  [key: string]: RecordValue;
}

/** docs/spec/sampler.md. Absent members keep the sampler's defaults: greedy. */
export interface Sampling {
  temperature?: number;
  topK?: number;
  topP?: number;
  minP?: number;
  repetitionPenalty?: number;
  repetitionWindow?: number;
  minNewTokens?: number;
  bans?: number[];
  /** 64 bits; a number must be a safe integer. */
  seed?: number | bigint;
  stream?: number;
  turn?: number;
}

export interface GenerateOptions {
  maxNewTokens?: number;
  sampling?: Sampling;
  stop?: string | string[];
  stopIds?: number[];
  /** Default true. */
  stopAtEos?: boolean;
  /** Of a text: whether the post-processor's tokens are put in. Default true. */
  addSpecialTokens?: boolean;
  /** Of messages: whether the template's generation prompt is added. Default true. */
  addGenerationPrompt?: boolean;
  /** How each token was chosen, in Token.trace. */
  trace?: boolean;
  /** The likeliest tokens at each step, in Token.top and Prompt.top. */
  top?: number;
  /** Hash of the key/value cache in the answer. */
  kv?: boolean;
  /** Rows of the prompt's logits in the answer. */
  logits?: 'none' | 'last' | 'all';
  /** Positions that are fed at a time; no bit depends on it. */
  prefillChunk?: number;
  signal?: AbortSignal;
}

export type GenerateInput = { text: string } | { ids: number[] } | { messages: Message[] };

export interface Span {
  begin: number;
  end: number;
  owner: string;
}
export interface Rendered {
  text: string;
  spans: Span[];
  insertion_ownership: { bos: string; eos: string; turn_separator: string; generation_prefix: string };
}
export interface Offsets {
  byte: [number, number][];
  scalar: [number, number][];
}
/** What the model sees. */
export interface Prompt {
  ids: number[];
  /** Of text and messages. */
  text?: string;
  offsets?: Offsets;
  /** Of messages. */
  rendered?: Rendered;
  /** How many ids the session held already. */
  reused: number;
  top?: Top;
}
/** The likeliest tokens of a step; probabilities at temperature 1. */
export interface Top {
  ids: number[];
  logits: number[];
  probabilities: number[];
  margin: number;
}
export interface Token {
  /** Null for the text that was held back until the end. */
  id: number | null;
  /** What the token made visible, perhaps nothing. */
  text: string;
  bytes: Uint8Array;
  trace?: unknown;
  /** Of the step that chose this token. */
  top?: Top;
}
export interface Answer {
  promptIds: number[];
  tokens: number[];
  /** Absent where the visible bytes are not well-formed UTF-8. */
  text?: string;
  bytes: Uint8Array;
  stopReason: 'eos' | 'stop_id' | 'stop_string' | 'length' | 'context' | 'cancelled';
  warnings: string[];
  kvSha256?: string;
  logits?: { shape: [number, number]; values: Float32Array };
}

export interface Encoding {
  ids: number[];
  offsets: Offsets;
}
export interface TokenizeOptions {
  addSpecialTokens?: boolean;
  specialTokensAsText?: boolean;
  truncation?: boolean;
  padding?: boolean;
}
export interface ObserveOptions {
  /** Cases file, JSON Lines (docs/spec/cases.md). */
  cases: string;
  /** "all", or names; not together with `like`. */
  taps?: 'all' | string[];
  /** A golden container whose arrays and slices are kept. */
  like?: Uint8Array;
  topK?: number;
  prefillChunk?: number;
  onCase?: (done: number, total: number) => void;
}

export interface CompareOptions {
  /** One container of any mode, or one of each mode of an oracle. A candidate's: then every bit counts. */
  references: Uint8Array[];
  candidate: Uint8Array;
  /** A tolerance policy's bytes; the one that ships for this comparison where absent. */
  policy?: Uint8Array;
}
export interface VerifyOptions {
  /** Id of the promotion, hexadecimal. */
  receipt: string;
  /** Preimages of nodes and contents of blobs, in any order; all are hashed again. */
  nodes: Uint8Array[];
  blobs: Uint8Array[];
}

export interface PromoteOptions {
  /** Id of a kept promotion. */
  base: string;
  /** The container that Model.observe() gave. */
  candidate: Uint8Array;
  /** Facts of the module's build: what tools/build_info.py wrote. */
  build: Readonly<Record<string, string>>;
  /** Of the model that observed. */
  identity: Identity;
}

interface Pending {
  resolve(result: unknown): void;
  reject(fault: unknown): void;
  onEvent(event: WorkerEvent): void;
}

class Connection {
  private nextId = 1;
  private readonly pending = new Map<number, Pending>();
  private death: SlmError | undefined;

  constructor(private readonly port: Port) {
    port.onMessage((message) => {
      const pending = this.pending.get(message.id);
      if (pending === undefined) return;
      if ('event' in message) {
        pending.onEvent(message.event);
        return;
      }
      this.pending.delete(message.id);
      if ('result' in message) pending.resolve(message.result);
      else pending.reject('aborted' in message ? abortError() : new SlmError(message.error));
    });
    port.onDeath((reason) => {
      this.end(hostError('INTERNAL', `the worker ended (${reason}); load the model again`, { retryable: true }));
    });
  }

  send(request: Request, signal: AbortSignal | undefined, onEvent: (event: WorkerEvent) => void): Promise<unknown> {
    if (this.death !== undefined) return Promise.reject(this.death);
    if (signal?.aborted === true) return Promise.reject(abortError());
    const id = this.nextId++;
    const stop = (): void => {
      this.port.post({ id, abort: true });
    };
    signal?.addEventListener('abort', stop, { once: true });
    return new Promise((resolve, reject) => {
      this.pending.set(id, { resolve, reject, onEvent });
      this.port.post({ id, request }, request.type === 'load' && request.source.kind === 'port' ? [request.source.port] : []);
    }).finally(() => {
      signal?.removeEventListener('abort', stop);
    });
  }

  end(reason: SlmError): void {
    if (this.death !== undefined) return;
    this.death = reason;
    for (const { reject } of this.pending.values()) reject(reason);
    this.pending.clear();
    this.port.close();
  }
}

/** One generation: iterate it for the tokens, or await `answer`. Leaving the iteration early stops it. */
export class Generation implements AsyncIterable<Token> {
  /** What the model sees; rejects where the input is refused. */
  readonly prompt: Promise<Prompt>;
  /** Everything, when it is over; `stopReason` is "cancelled" where it was stopped. */
  readonly answer: Promise<Answer>;
  private readonly items: Token[] = [];
  private wake: () => void = () => undefined;
  private over = false;
  private fault: unknown;
  private readonly control = new AbortController();

  /** @internal */
  constructor(connection: Connection, request: Extract<Request, { type: 'generate' }>, signal: AbortSignal | undefined) {
    const stop = (): void => {
      this.control.abort();
    };
    if (signal?.aborted === true) stop();
    signal?.addEventListener('abort', stop, { once: true });
    let gotPrompt: (prompt: Prompt) => void = () => undefined;
    let noPrompt: (fault: unknown) => void = () => undefined;
    this.prompt = new Promise((resolve, reject) => {
      gotPrompt = resolve;
      noPrompt = reject;
    });
    this.answer = connection
      .send(request, this.control.signal, (event) => {
        if (event.kind === 'prompt') gotPrompt(promptOf(event.prompt as RawPrompt, event.top));
        if (event.kind === 'token') this.push(tokenOf(event.token as RawToken, event.top));
      })
      .then((result) => {
        const raw = result as RawAnswer;
        const tail = fromBase64(raw.tail);
        if (tail.length > 0) this.push({ id: null, text: new TextDecoder().decode(tail), bytes: tail });
        return answerOf(raw);
      })
      .catch((fault: unknown) => {
        this.fault = fault;
        noPrompt(fault);
        throw fault;
      })
      .finally(() => {
        signal?.removeEventListener('abort', stop);
        this.over = true;
        this.wake();
      });
    // Whoever iterates gets the fault there; nobody has to look at the promises.
    this.prompt.catch(() => undefined);
    this.answer.catch(() => undefined);
  }

  /** Ends it after the token that is being computed. */
  stop(): void {
    this.control.abort();
  }

  async *[Symbol.asyncIterator](): AsyncIterator<Token> {
    try {
      for (;;) {
        const item = this.items.shift();
        if (item !== undefined) {
          yield item;
        } else if (this.over) {
          if (this.fault !== undefined) throw this.fault;
          return;
        } else {
          await new Promise<void>((resolve) => {
            this.wake = resolve;
          });
        }
      }
    } finally {
      this.stop();
    }
  }

  private push(token: Token): void {
    this.items.push(token);
    this.wake();
  }
}

/** Compares and verifies in a worker of its own; needs no model and no network. */
export class Evidence {
  /** @internal */
  constructor(private readonly connection: Connection) {}

  /** Level by level: the answer of `slm compare --json`. */
  async compare(options: CompareOptions): Promise<Comparison> {
    const { references, candidate, policy } = options;
    return (await this.connection.send({ type: 'compare', references, candidate, policy }, undefined, () => undefined)) as Comparison;
  }

  /** Everything that a receipt claims, from its objects alone: the answer of `slm verify --json`. */
  async verifyReceipt(options: VerifyOptions): Promise<Verification> {
    return (await this.connection.send({ type: 'verify', ...options }, undefined, () => undefined)) as Verification;
  }

  /** Keeps the objects of a bundle in this worker, with those of earlier ones. */
  async readBundle(bundle: Uint8Array): Promise<BundleFacts> {
    return (await this.ask({ type: 'read-bundle', bundle })) as BundleFacts;
  }

  /** What a kept receipt names. */
  async parts(receipt: string): Promise<ReceiptParts> {
    return (await this.ask({ type: 'receipt-parts', receipt })) as ReceiptParts;
  }

  /** A kept blob. */
  async blob(id: string): Promise<Uint8Array> {
    return (await this.ask({ type: 'blob', id })) as Uint8Array;
  }

  /** Writes the receipt of another backend over a kept one: same artifact, suite, evidence and policy. */
  async promote({ base, candidate, build, identity }: PromoteOptions): Promise<Promoted> {
    const { name, version, javascript, userAgent, features } = identity.engine;
    const engine = { name, version, javascript, userAgent, features: { ...features } };
    const madeBy = toJson({ build: { ...build }, identity: { ...identity, backend: { ...identity.backend }, engine } }, '');
    return (await this.ask({ type: 'promote', base, candidate, madeBy })) as Promoted;
  }

  /** A kept receipt as a bundle; with `base`, without what that one reaches. */
  async writeBundle(receipt: string, base?: string): Promise<Uint8Array> {
    return (await this.ask({ type: 'write-bundle', receipt, base })) as Uint8Array;
  }

  /** As verifyReceipt, from the kept objects. */
  async verifyKept(receipt: string): Promise<Verification> {
    return (await this.ask({ type: 'verify-kept', receipt })) as Verification;
  }

  private ask(request: Request): Promise<unknown> {
    return this.connection.send(request, undefined, () => undefined);
  }

  close(): void {
    this.connection.end(hostError('USAGE', 'it was closed'));
  }
}

export function evidenceThrough(port: Port): Evidence {
  return new Evidence(new Connection(port));
}

export class Model {
  /** @internal */
  constructor(
    private readonly connection: Connection,
    private readonly loaded: LoadAnswer,
  ) {}

  /** Artifact, module and backend profile ids, engine and features (BKD-02). */
  identity(): Identity {
    return this.loaded.identity;
  }

  /** What the artifact says of itself. */
  get facts(): ModelFacts {
    return this.loaded.model;
  }

  /** Whether the model came from, or is now in, the browser's private storage; and if not, why. */
  get cache(): CacheReport {
    return this.loaded.cache;
  }

  /** Ids and offsets of a text; of bytes where the profile has the byte API. */
  async tokenize(input: string | Uint8Array, options: TokenizeOptions = {}): Promise<Encoding> {
    const what: { readonly [key: string]: RecordValue } =
      typeof input === 'string' ? { text: input } : { bytes: toBase64(input), api: 'bytes' };
    const answer = await this.record('tokenize', {
      ...what,
      add_special_tokens: options.addSpecialTokens,
      special_tokens_as_text: options.specialTokensAsText,
      truncation: options.truncation,
      padding: options.padding,
    });
    return answer as Encoding;
  }

  /** The bytes that ids stand for; `text` only where they are well-formed. */
  async detokenize(ids: number[], mode: 'raw' | 'visible' | 'diagnostic' = 'raw'): Promise<{ bytes: Uint8Array; text?: string }> {
    const answer = (await this.record('detokenize', { ids, mode })) as { bytes: string; text?: string };
    const bytes = fromBase64(answer.bytes);
    return answer.text === undefined ? { bytes } : { bytes, text: answer.text };
  }

  /** The chat template on a context: `messages`, `tools`, `add_generation_prompt` and what else it declares. */
  async render(
    context: { readonly [key: string]: RecordValue },
    options: { template?: string; clock?: string } = {},
  ): Promise<Rendered> {
    const record = toJson({ context, ...options }, '');
    return (await this.connection.send({ type: 'render', record, template: options.template }, undefined, () => undefined)) as Rendered;
  }

  generate(input: GenerateInput, options: GenerateOptions = {}): Generation {
    const { sampling = {} } = options;
    if (typeof sampling.seed === 'number' && !Number.isSafeInteger(sampling.seed)) {
      throw hostError('USAGE', 'seed is no safe integer; give a bigint', { field: 'sampling.seed' });
    }
    const record = toJson(
      {
        ...input,
        max_new_tokens: options.maxNewTokens ?? 128,
        add_special_tokens: options.addSpecialTokens,
        add_generation_prompt: options.addGenerationPrompt,
        stop_at_eos: options.stopAtEos,
        stop: options.stop,
        stop_ids: options.stopIds,
        trace: options.trace,
        kv: options.kv,
        logits: options.logits,
        sampling: {
          temperature: sampling.temperature,
          top_k: sampling.topK,
          top_p: sampling.topP,
          min_p: sampling.minP,
          repetition_penalty: sampling.repetitionPenalty,
          repetition_window: sampling.repetitionWindow,
          min_new_tokens: sampling.minNewTokens,
          bans: sampling.bans,
          seed: sampling.seed,
          stream: sampling.stream,
          turn: sampling.turn,
        },
      },
      '',
    );
    const request = { type: 'generate', record, prefillChunk: options.prefillChunk ?? 0, top: options.top ?? 0 } as const;
    return new Generation(this.connection, request, options.signal);
  }

  /** Runs a suite of cases here: the bytes of a golden container, as `slm observe` writes them. */
  async observe(options: ObserveOptions): Promise<Uint8Array> {
    if (options.like !== undefined && options.taps !== undefined) {
      throw hostError('USAGE', 'taps and like exclude each other', { field: 'taps' });
    }
    const how: Extract<Request, { type: 'observe' }>['options'] = {};
    if (options.taps !== undefined) how.taps = options.taps;
    if (options.topK !== undefined) how.top_k = options.topK;
    if (options.prefillChunk !== undefined) how.prefill_chunk = options.prefillChunk;
    const request = { type: 'observe', options: how, cases: options.cases, like: options.like } as const;
    const result = await this.connection.send(request, undefined, (event) => {
      if (event.kind === 'case') options.onCase?.(event.done, event.total);
    });
    return result as Uint8Array;
  }

  /** Ends the worker and frees its memory. What is under way rejects. */
  close(): void {
    this.connection.end(hostError('USAGE', 'the model was closed'));
  }

  private async record(type: 'tokenize' | 'detokenize', record: RecordValue): Promise<unknown> {
    return this.connection.send({ type, record: toJson(record, '') }, undefined, () => undefined);
  }
}

/** Loads a model into the worker behind `port`; closes it where that fails. */
export async function loadThrough(port: Port, source: ModelSource, base: string, options: LoadModelOptions): Promise<Model> {
  const connection = new Connection(port);
  try {
    const request = { type: 'load', source: messageOf(source, base), maxPositions: options.maxPositions ?? 0 } as const;
    const loaded = await connection.send(request, options.signal, (event) => {
      if (event.kind === 'progress') options.onProgress?.(event.progress);
    });
    return new Model(connection, loaded as LoadAnswer);
  } catch (fault) {
    connection.end(hostError('USAGE', 'the model was not loaded'));
    throw fault;
  }
}

function messageOf(source: ModelSource, base: string): SourceMessage {
  if (typeof source === 'string' || source instanceof URL) return { kind: 'url', url: new URL(source, base).href };
  if (source instanceof Blob) return { kind: 'blob', blob: source, name: 'name' in source ? String(source.name) : 'the blob' };
  if (source instanceof Uint8Array) return { kind: 'bytes', bytes: source };
  if ('port' in source) return { kind: 'port', port: source.port, name: source.name };
  return { kind: 'bytes', bytes: new Uint8Array(source) };
}

interface RawPrompt {
  prompt_ids: number[];
  n_fed: number;
  text?: string;
  offsets?: Offsets;
  rendered?: Rendered;
}
interface RawToken {
  id: number;
  bytes: string;
  text?: string;
  trace?: unknown;
}
interface RawAnswer {
  prompt_ids: number[];
  tokens: number[];
  text?: string;
  bytes: string;
  stop_reason: Answer['stopReason'];
  warnings: string[];
  kv_sha256?: string;
  logits?: { shape: [number, number]; f32: string };
  tail: string;
}

function promptOf(raw: RawPrompt, top: unknown): Prompt {
  const prompt: Prompt = { ids: raw.prompt_ids, reused: raw.n_fed };
  if (raw.text !== undefined) prompt.text = raw.text;
  if (raw.offsets !== undefined) prompt.offsets = raw.offsets;
  if (raw.rendered !== undefined) prompt.rendered = raw.rendered;
  if (top !== undefined) prompt.top = top as Top;
  return prompt;
}

function tokenOf(raw: RawToken, top: unknown): Token {
  const bytes = fromBase64(raw.bytes);
  const token: Token = { id: raw.id, text: raw.text ?? new TextDecoder().decode(bytes), bytes };
  if (raw.trace !== undefined) token.trace = raw.trace;
  if (top !== undefined) token.top = top as Top;
  return token;
}

function answerOf(raw: RawAnswer): Answer {
  const answer: Answer = {
    promptIds: raw.prompt_ids,
    tokens: raw.tokens,
    bytes: fromBase64(raw.bytes),
    stopReason: raw.stop_reason,
    warnings: raw.warnings,
  };
  if (raw.text !== undefined) answer.text = raw.text;
  if (raw.kv_sha256 !== undefined) answer.kvSha256 = raw.kv_sha256;
  if (raw.logits !== undefined) {
    const bytes = fromBase64(raw.logits.f32);
    const view = new DataView(bytes.buffer);
    const values = Float32Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(4 * i, true));
    answer.logits = { shape: raw.logits.shape, values };
  }
  return answer;
}
