/**
 * The worker's side: one model in two modules, one session. Requests run one after another where they share the session
 * (load, generate, observe); records of the tokenizer and the template are answered in between.
 */
import { abortError, hostError, SlmError } from './errors.js';
import { Halves, Run } from './halves.js';
import { loadArtifact } from './load.js';
import { SlmModule } from './module.js';
import type { EngineFacts, FromWorker, Identity, LoadAnswer, Request, ToWorker } from './protocol.js';
import { opening, openSource } from './source.js';

/**
 * `slm` has a model's weights, `slm-text` its tokenizer and template; `slm-evidence` compares, promotes, verifies and
 * converts templates, and is read only for that.
 */
export type ModuleName = 'slm' | 'slm-text' | 'slm-evidence';

/** What differs between a browser's worker and Node's. */
export interface Platform {
  /** The bytes of a module, NAME.wasm. Of a response, the engine compiles what has arrived. */
  readModule(name: ModuleName): Promise<Uint8Array | Response>;
  /** Root of the private file system, or why there is none. */
  storage(): Promise<FileSystemDirectoryHandle | string>;
  engine(): EngineFacts;
  subtle: SubtleCrypto | undefined;
  post(message: FromWorker, transfer: ArrayBuffer[]): void;
}

interface Loaded {
  halves: Halves;
  session: number;
  backend: string;
}

const PREFILL_STEP = 16; // positions between two looks at the messages that came

export class Engine {
  private loaded: Loaded | undefined;
  private kept: Promise<{ module: SlmModule; objects: number }> | undefined;
  private readonly fetched = new Map<ModuleName, Promise<{ bytes: Uint8Array; compiled: WebAssembly.Module }>>();
  private queue: Promise<unknown> = Promise.resolve();
  private readonly aborts = new Map<number, AbortController>();

  constructor(private readonly platform: Platform) {}

  receive(message: ToWorker): void {
    if ('abort' in message) {
      this.aborts.get(message.id)?.abort();
      return;
    }
    const { id, request } = message;
    const control = new AbortController();
    this.aborts.set(id, control);
    const work = (): Promise<unknown> => this.handle(id, request, control.signal);
    const alone = request.type === 'load' || request.type === 'generate' || request.type === 'observe';
    const done = alone ? this.queue.then(work, work) : work();
    if (alone) this.queue = done.catch(() => undefined);
    done
      .then((result) => {
        const transfer = result instanceof Uint8Array ? [result.buffer as ArrayBuffer] : [];
        this.platform.post({ id, result }, transfer);
      })
      .catch((fault: unknown) => {
        if (control.signal.aborted) this.platform.post({ id, aborted: true }, []);
        else this.platform.post({ id, error: asFacts(fault) }, []);
      })
      .finally(() => this.aborts.delete(id));
  }

  private async handle(id: number, request: Request, signal: AbortSignal): Promise<unknown> {
    if (signal.aborted) throw abortError();
    if (request.type === 'load') return this.load(id, request, signal);
    if (request.type === 'compare') return this.withObjects((module, objects) => compare(module, objects, request));
    if (request.type === 'verify') return this.withObjects((module, objects) => verify(module, objects, request));
    if (request.type in KEPT) return this.onKept(request as KeptRequest);
    const { halves } = this.need();
    switch (request.type) {
      case 'tokenize':
        return halves.record('slm_tokenize', request.record);
      case 'detokenize':
        return halves.record('slm_detokenize', request.record);
      case 'render':
        return halves.render(request.record, await this.convert(request.template));
      case 'generate':
        return this.generate(id, request, signal);
      case 'observe':
        return this.observe(id, request);
    }
  }

  // Fetched and compiled once; what failed is tried again.
  private program(name: ModuleName): Promise<{ bytes: Uint8Array; compiled: WebAssembly.Module }> {
    if (typeof WebAssembly === 'undefined') {
      throw hostError('UNSUPPORTED', 'this browser has no WebAssembly, or a policy of the page forbids it; allow it and try again, or use another browser');
    }
    const known = this.fetched.get(name);
    if (known !== undefined) return known;
    const fetched = this.platform
      .readModule(name)
      .then(compile)
      .catch((fault: unknown) => {
        this.fetched.delete(name);
        throw fault;
      });
    this.fetched.set(name, fetched);
    return fetched;
  }

  // In an instance of its own, so that its memory is given back and no fault reaches the model.
  private async withObjects<T>(work: (module: SlmModule, objects: number) => T): Promise<T> {
    const module = await SlmModule.instantiate((await this.program('slm-evidence')).compiled);
    return work(module, module.open('slm_objects_new').handle);
  }

  // Objects that stay between requests, in one instance; after a fault of the module they are gone.
  private async onKept(request: KeptRequest): Promise<unknown> {
    this.kept ??= this.withObjects((module, objects) => ({ module, objects }));
    const { module, objects } = await this.kept;
    try {
      return KEPT[request.type](module, objects, request as never);
    } catch (fault) {
      if (module.failed) this.kept = undefined;
      throw fault;
    }
  }

  /** The program of a template's source; the module that runs templates has no converter. */
  private async convert(source: string | undefined): Promise<Uint8Array> {
    if (source === undefined) return new Uint8Array(0);
    const module = await SlmModule.instantiate((await this.program('slm-evidence')).compiled);
    return module.bytes('slm_template_convert', source);
  }

  private need(): Loaded {
    if (this.loaded === undefined) throw hostError('USAGE', 'no model is loaded');
    return this.loaded;
  }

  /** Work on an instance; its program is hashed beside it. */
  private async start<T>(name: ModuleName, work: (module: SlmModule) => Promise<T>): Promise<T & { digest: Promise<Uint8Array> }> {
    const { bytes, compiled } = await this.program(name);
    const module = await SlmModule.instantiate(compiled);
    const { subtle } = this.platform;
    const digest = subtle === undefined
      ? Promise.resolve(module.sha256(bytes))
      : subtle.digest('SHA-256', bytes as Uint8Array<ArrayBuffer>).then((hash) => new Uint8Array(hash));
    digest.catch(() => undefined);
    return { ...(await work(module)), digest };
  }

  private async load(id: number, request: Extract<Request, { type: 'load' }>, signal: AbortSignal): Promise<LoadAnswer> {
    if (this.loaded !== undefined) throw hostError('USAGE', 'this worker holds a model already');
    if (signal.aborted) throw abortError();
    // The modules, the storage and the first bytes are waited for together.
    const storage = this.platform.storage();
    const texts = this.start('slm-text', (module) => Promise.resolve({ module }));
    // A program that does not come ends the load at once.
    const stop = new AbortController();
    const aborted = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => {
        stop.abort();
        reject(abortError());
      }, { once: true });
    });
    aborted.catch(() => {}); // it may come when nobody waits any more
    let textFault: unknown;
    texts.catch((fault: unknown) => {
      textFault = fault;
      stop.abort();
    });
    const { source, drop } = opening(openSource(request.source), stop.signal);
    const { artifact, cache, module, digest } = await this.start('slm', async (module) => ({
      ...(await loadArtifact(module, source, {
        signal: stop.signal,
        onProgress: (progress) => this.platform.post({ id, event: { kind: 'progress', progress } }, []),
        storage: await storage,
        subtle: this.platform.subtle,
        retryDelay: 250,
      })),
      module,
    })).catch((fault: unknown) => {
      throw signal.aborted ? fault : (textFault ?? fault);
    }).finally(drop);
    const words = await Promise.race([texts, aborted]);
    const halves = new Halves(module, words.module, artifact);
    const session = halves.openSession(request.maxPositions);
    const model = halves.facts;
    const engine = this.platform.engine();
    const backend = `wasm-scalar@${engine.name}`;
    const stated = module.json('slm_identity', backend) as { backend: Identity['backend'] };
    const [core, text] = await Promise.all([digest, words.digest]);
    const identity = { artifact: model.artifact, module: hex(core), textModule: hex(text), backend: stated.backend, engine };
    this.loaded = { halves, session, backend };
    return { identity, model, cache };
  }

  private async generate(id: number, request: Extract<Request, { type: 'generate' }>, signal: AbortSignal): Promise<unknown> {
    const { halves, session } = this.need();
    const run = new Run(halves, session, request.record);
    const top = (): unknown => (request.top > 0 ? run.top(request.top) : undefined);
    try {
      let state = { done: false, n_fed: run.prompt.n_fed, n_prompt: Infinity };
      while (state.n_fed < state.n_prompt) {
        state = run.prefill(request.prefillChunk || PREFILL_STEP);
        await breathe();
        if (signal.aborted) throw abortError();
      }
      this.platform.post({ id, event: { kind: 'prompt', prompt: run.prompt, top: top() } }, []);
      for (let { done } = state; !done && !signal.aborted; ) {
        const token = run.next();
        this.platform.post({ id, event: { kind: 'token', token, top: top() } }, []);
        done = token.done;
        await breathe();
      }
      return run.finish();
    } finally {
      run.free();
    }
  }

  private async observe(id: number, request: Extract<Request, { type: 'observe' }>): Promise<Uint8Array> {
    const { halves, backend } = this.need();
    const suite = halves.observe({ ...request.options, backend }, request.cases, request.like ?? new Uint8Array(0));
    for (;;) {
      const step = suite.next();
      if (step.done === true) return step.value;
      this.platform.post({ id, event: { kind: 'case', ...step.value } }, []);
      await breathe();
    }
  }
}

async function compile(program: Uint8Array | Response): Promise<{ bytes: Uint8Array; compiled: WebAssembly.Module }> {
  if (program instanceof Uint8Array) return { bytes: program, compiled: await WebAssembly.compile(program as Uint8Array<ArrayBuffer>) };
  // Browsers keep the machine code of what they compile from a response. Only one of this type is taken.
  const typed = program.headers.get('content-type')?.trim().toLowerCase() === 'application/wasm';
  const compiled = typed ? WebAssembly.compileStreaming(program.clone()) : undefined;
  compiled?.catch(() => undefined); // a connection that breaks is told by the bytes
  const bytes = new Uint8Array(await program.arrayBuffer());
  return { bytes, compiled: await (compiled ?? WebAssembly.compile(bytes)) };
}

const BLOB = 0;
const NODE = 1;

function add(module: SlmModule, objects: number, kind: number, bytes: Uint8Array): string {
  return (module.json('slm_objects_add', objects, kind, bytes) as { id: string }).id;
}

function compare(module: SlmModule, objects: number, request: Extract<Request, { type: 'compare' }>): unknown {
  const named = {
    references: request.references.map((bytes) => add(module, objects, BLOB, bytes)),
    candidate: add(module, objects, BLOB, request.candidate),
    ...(request.policy === undefined ? {} : { policy: add(module, objects, BLOB, request.policy) }),
  };
  return module.json('slm_compare', objects, JSON.stringify(named));
}

function verify(module: SlmModule, objects: number, request: Extract<Request, { type: 'verify' }>): unknown {
  for (const bytes of request.blobs) add(module, objects, BLOB, bytes);
  for (const bytes of request.nodes) add(module, objects, NODE, bytes);
  return module.json('slm_verify', objects, JSON.stringify({ receipt: request.receipt }));
}

type RequestOf<T extends Request['type']> = Extract<Request, { type: T }>;
type KeptType = 'read-bundle' | 'receipt-parts' | 'blob' | 'promote' | 'write-bundle' | 'verify-kept';
type KeptRequest = RequestOf<KeptType>;

const KEPT: { [T in KeptType]: (module: SlmModule, objects: number, request: RequestOf<T>) => unknown } = {
  'read-bundle': (module, objects, { bundle }) => module.json('slm_objects_read', objects, bundle),
  'receipt-parts': (module, objects, { receipt }) => module.json('slm_receipt_parts', objects, JSON.stringify({ receipt })),
  blob: (module, objects, { id }) => module.blob(objects, id),
  promote: (module, objects, { base, candidate, madeBy }) => {
    const id = add(module, objects, BLOB, candidate);
    return module.json('slm_promote', objects, `{"base":${JSON.stringify(base)},"candidate":"${id}","made_by":${madeBy}}`);
  },
  'write-bundle': (module, objects, { receipt, base }) => module.bytes('slm_objects_write', objects, JSON.stringify({ receipt, base })),
  'verify-kept': (module, objects, { receipt }) => module.json('slm_verify', objects, JSON.stringify({ receipt })),
};

// Lets messages in: an abort, a record. setTimeout would be held back to 4 ms by browsers.
function breathe(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(0);
  });
}

function asFacts(fault: unknown): ReturnType<SlmError['facts']> {
  return (fault instanceof SlmError ? fault : hostError('INTERNAL', String(fault))).facts();
}

export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
