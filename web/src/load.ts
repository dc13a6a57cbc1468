/**
 * A model from a source: header, manifest and chunk table first, then chunk after chunk, each hashed while the next ones
 * arrive. The first wrong chunk stops the load and is named. Verified chunks go into the cache; what the cache holds
 * is hashed again, and a broken connection is opened again where it stopped.
 */
import { CachedModel, type DirectReader } from './cache.js';
import { abortError, hostError, SlmError } from './errors.js';
import type { ArtifactFacts, SlmModule } from './module.js';
import { BlobSource, type ByteSource, type ByteStream } from './source.js';

export interface Progress {
  /** Verified bytes of the whole file. */
  loaded: number;
  total: number;
  fromCache: boolean;
}

/** What became of the cache. */
export interface CacheReport {
  /** `hit`: all bytes came from it; `stored`: they are in it now; `none`: see `reason`. */
  state: 'hit' | 'stored' | 'none';
  reason?: string;
}

export interface LoadOptions {
  signal: AbortSignal;
  onProgress(progress: Progress): void;
  /** Root of the private file system, or why there is none. */
  storage: FileSystemDirectoryHandle | string;
  /** Undefined where there is no secure context: the module's own SHA-256 is used. */
  subtle: SubtleCrypto | undefined;
  /** Milliseconds before the first new attempt after a broken connection; doubled each time. */
  retryDelay: number;
}

const HEADER_SIZE = 192;
const DIRECT_READ = 1 << 20; // bytes of the cache that are read at once
const MAX_IN_FLIGHT = 8; // chunks that are being hashed
const MAX_RETRIES = 4; // without a byte between them
const UNKNOWN_SIZE = 0xffff_ffff_ffff_ffffn;

export async function loadArtifact(
  module: SlmModule,
  source: ByteSource,
  options: LoadOptions,
): Promise<{ artifact: number; cache: CacheReport }> {
  const { stream, head } = await readHeader(source, options);
  const size = head.length < HEADER_SIZE ? BigInt(head.length) : UNKNOWN_SIZE; // its own word; the source's is checked below
  let opened: { handle: number; answer: unknown };
  try {
    opened = module.open('slm_artifact_new', head.subarray(0, HEADER_SIZE), size); // a first piece may be the whole file
  } catch (fault) {
    stream.cancel();
    throw withHint(refusalForSize(module, head, stream.totalSize) ?? fault, source.hint);
  }
  const loader = new Loader(module, source, options, opened.handle, opened.answer as ArtifactFacts);
  try {
    return { artifact: opened.handle, cache: await loader.run(stream, head) };
  } catch (fault) {
    module.free('slm_artifact_free', opened.handle);
    throw fault;
  }
}

class Loader {
  private position = 0; // bytes that lie in the module
  private verified = 0; // of these, from the start
  private headChecked = false;
  private nextChunk = 0; // not yet being hashed
  private inFlight: Promise<void>[] = [];
  private fault: unknown; // of a hash that is done
  private onFault: (fault: unknown) => void = () => undefined;
  private cached: CachedModel | undefined;
  private cacheReason: string | undefined;
  private fromCache = false;

  constructor(
    private readonly module: SlmModule,
    private readonly source: ByteSource,
    private readonly options: LoadOptions,
    private readonly artifact: number,
    private readonly facts: ArtifactFacts,
  ) {}

  async run(first: ByteStream, head: Uint8Array): Promise<CacheReport> {
    let stream: ByteStream | undefined = first;
    let pending: Uint8Array | undefined = head;
    try {
      this.checkStatedSize(first);
      await this.openCache();
      if (this.cached !== undefined && this.cached.stored.size > HEADER_SIZE) {
        await this.feedFromCache(this.cached);
        if (this.position > 0) {
          stream.cancel();
          stream = pending = undefined;
        }
      }
      if (this.position === this.facts.file_size) {
        stream?.cancel();
        this.cached?.close();
        return { state: 'hit' };
      }
      await this.beginCaching();
      await this.feedFromSource(stream, pending);
      this.cached?.close();
      return this.cacheReason === undefined ? { state: 'stored' } : { state: 'none', reason: this.cacheReason };
    } catch (fault) {
      stream?.cancel();
      this.cached?.close();
      await Promise.allSettled(this.inFlight);
      throw fault;
    }
  }

  private async openCache(): Promise<void> {
    const { storage } = this.options;
    if (!this.source.canResume) {
      this.cacheReason = 'a local file is not stored a second time';
    } else if (typeof storage === 'string') {
      this.cacheReason = storage;
    } else {
      try {
        this.cached = await CachedModel.open(storage, this.facts.root);
      } catch (fault) {
        this.cacheReason = `the browser's storage cannot be used (${String(fault)})`;
      }
    }
  }

  private async beginCaching(): Promise<void> {
    if (this.cached === undefined) return;
    const reason = await this.cached.beginWriting(this.verified);
    if (reason !== undefined) this.doWithoutCache(reason);
  }

  private doWithoutCache(reason: string): void {
    this.cacheReason = reason;
    this.cached = undefined;
  }

  // What is damaged or cut off there is taken from the source again.
  private async feedFromCache(cached: CachedModel): Promise<void> {
    this.fromCache = true;
    const direct = await cached.openDirect();
    try {
      if (direct !== undefined) {
        await this.feedDirectly(direct, cached.stored.size);
      } else {
        const stream = await new BlobSource(cached.stored, 'the cache').open(0, this.options.signal);
        for (let piece = await stream.read(); piece !== undefined; piece = await stream.read()) {
          await this.accept(piece);
        }
      }
      await this.drain();
    } catch (fault) {
      if (this.options.signal.aborted || !(fault instanceof SlmError)) throw abortOr(fault, this.options.signal);
      await Promise.allSettled(this.inFlight);
    } finally {
      direct?.close();
    }
    this.inFlight = [];
    this.fault = undefined;
    // Goes on after the last whole chunk that agreed.
    this.position = this.verified;
    this.nextChunk = this.headChecked ? (this.verified - this.facts.head_size) / this.facts.chunk_size : 0;
    if (this.verified === this.facts.file_size) return void (this.position = this.facts.file_size);
    this.fromCache = false;
  }

  private async feedDirectly(reader: DirectReader, size: number): Promise<void> {
    while (this.position < size) {
      const into = this.room(Math.min(DIRECT_READ, size - this.position));
      let count: number;
      try {
        count = reader.read(into, this.position);
      } catch (fault) {
        throw hostError('IO', `the cache cannot be read (${String(fault)})`, { retryable: true });
      }
      if (count === 0) return; // shorter than it was
      await this.advance(count);
    }
  }

  private async feedFromSource(first: ByteStream | undefined, head: Uint8Array | undefined): Promise<void> {
    let stream = first;
    let pending = head;
    for (let attempt = 0; ; ) {
      const before = this.position;
      try {
        stream ??= await this.source.open(this.position, this.options.signal);
        this.checkStatedSize(stream);
        while (pending !== undefined || this.position < this.facts.file_size) {
          const piece: Uint8Array | undefined = pending ?? (await this.unlessFault(stream.read()));
          pending = undefined;
          if (piece === undefined) break;
          await this.accept(piece);
        }
        if (this.position === this.facts.file_size) {
          await this.drain();
          if ((await stream.read()) !== undefined) throw this.sizeError('goes on after its last byte', this.position);
          return;
        }
        throw this.cutOff();
      } catch (fault) {
        stream?.cancel();
        stream = undefined;
        if (this.options.signal.aborted) throw abortError();
        if (!this.source.canResume || !(fault instanceof SlmError) || !fault.retryable) throw fault;
        attempt = this.position > before ? 1 : attempt + 1;
        if (attempt > MAX_RETRIES) throw fault;
        await wait(this.options.retryDelay * 2 ** (attempt - 1), this.options.signal);
      }
    }
  }

  private checkStatedSize(stream: ByteStream): void {
    if (stream.totalSize === undefined || stream.totalSize === this.facts.file_size) return;
    throw this.sizeError(`has ${stream.totalSize} bytes`, stream.totalSize, this.placeOf(stream.totalSize));
  }

  private sizeError(what: string, byteOffset: number, field = ''): SlmError {
    const where = field === '' ? '' : `, which end in ${field}`;
    const message = `${this.source.name} ${what}${where}; its header says ${this.facts.file_size}`;
    return hostError('SLM-SIZE', message, field === '' ? { byteOffset } : { byteOffset, field });
  }

  private placeOf(byteOffset: number): string {
    const inData = byteOffset - this.facts.head_size;
    if (inData < 0) return 'the head';
    return byteOffset >= this.facts.file_size ? '' : `chunk ${Math.floor(inData / this.facts.chunk_size)}`;
  }

  // The stream ended early: of a file for good, of a connection perhaps.
  private cutOff(): SlmError {
    const chunk = this.placeOf(this.position);
    return hostError('SLM-SIZE', `${this.source.name} ends at byte ${this.position} of ${this.facts.file_size}, in ${chunk}`, {
      byteOffset: this.position,
      field: chunk,
      retryable: this.source.canResume,
    });
  }

  // Puts a piece where it belongs.
  private async accept(piece: Uint8Array): Promise<void> {
    this.room(piece.length).set(piece);
    await this.advance(piece.length);
  }

  // The module's memory for the next `size` bytes.
  private room(size: number): Uint8Array {
    if (this.options.signal.aborted) throw abortError();
    if (size > this.facts.file_size - this.position) {
      throw this.sizeError('goes on after its last byte', this.facts.file_size);
    }
    return this.module.view(this.module.artifactBytes(this.artifact) + this.position, size);
  }

  // `size` further bytes are there: starts to hash every chunk that they complete.
  private async advance(size: number): Promise<void> {
    this.position += size;
    if (!this.headChecked && this.position >= this.facts.head_size) {
      this.module.json('slm_artifact_head', this.artifact);
      this.headChecked = true;
      this.store(0, this.facts.head_size);
    }
    while (this.headChecked && this.nextChunk < this.facts.n_chunks && this.chunkEnd(this.nextChunk) <= this.position) {
      this.hash(this.nextChunk++);
      if (this.inFlight.length >= MAX_IN_FLIGHT) await this.inFlight.shift();
      if (this.fault !== undefined) throw this.fault;
    }
  }

  private chunkBegin(index: number): number {
    return this.facts.head_size + index * this.facts.chunk_size;
  }

  private chunkEnd(index: number): number {
    return Math.min(this.chunkBegin(index) + this.facts.chunk_size, this.facts.file_size);
  }

  private hash(index: number): void {
    const begin = this.chunkBegin(index);
    const size = this.chunkEnd(index) - begin;
    const { subtle } = this.options;
    const before = this.inFlight.at(-1) ?? Promise.resolve();
    // digest() copies the bytes at once; the answers are taken in the order of the chunks.
    const bytes = this.module.view(this.module.artifactBytes(this.artifact) + begin, size) as Uint8Array<ArrayBuffer>;
    const digest = subtle?.digest('SHA-256', bytes);
    this.inFlight.push(
      Promise.all([digest, before])
        .then(([sha256]) => {
          if (this.fault !== undefined) return;
          this.module.checkChunk(this.artifact, index, sha256 === undefined ? undefined : new Uint8Array(sha256));
          this.store(begin, size);
        })
        .catch((fault: unknown) => {
          this.fault ??= fault;
          this.onFault(fault);
        }),
    );
  }

  // The next piece may be long in coming; a wrong chunk stops the load before.
  private unlessFault<T>(work: Promise<T>): Promise<T> {
    const fault = new Promise<never>((_resolve, reject) => {
      this.onFault = reject;
      if (this.fault !== undefined) reject(this.fault);
    });
    work.catch(() => undefined);
    return Promise.race([work, fault]);
  }

  private async drain(): Promise<void> {
    await Promise.all(this.inFlight);
    this.inFlight = [];
    if (this.fault !== undefined) throw this.fault;
  }

  private store(begin: number, size: number): void {
    this.verified = begin + size;
    if (!this.fromCache && this.cached !== undefined) {
      const bytes = this.module.view(this.module.artifactBytes(this.artifact) + begin, size);
      const reason = this.cached.write(bytes, begin);
      if (reason !== undefined) this.doWithoutCache(reason);
    }
    this.options.onProgress({ loaded: this.verified, total: this.facts.file_size, fromCache: this.fromCache });
  }
}

// A connection may break before the header is there; one that cannot be opened is the caller's to try again.
async function readHeader(source: ByteSource, options: LoadOptions): Promise<{ stream: ByteStream; head: Uint8Array }> {
  for (let attempt = 1; ; attempt++) {
    const stream = await source.open(0, options.signal);
    try {
      return { stream, head: await readAtLeast(stream, HEADER_SIZE) };
    } catch (fault) {
      stream.cancel();
      if (!(fault instanceof SlmError) || !fault.retryable || attempt > MAX_RETRIES) throw fault;
      await wait(options.retryDelay * 2 ** (attempt - 1), options.signal);
    }
  }
}

async function readAtLeast(stream: ByteStream, size: number): Promise<Uint8Array> {
  let bytes = new Uint8Array(0);
  while (bytes.length < size) {
    const piece = await stream.read();
    if (piece === undefined) break;
    const joined = new Uint8Array(bytes.length + piece.length);
    joined.set(bytes);
    joined.set(piece, bytes.length);
    bytes = joined;
  }
  return bytes;
}

// A header that contradicts itself is refused as the command refuses it, which knows the file's size.
function refusalForSize(module: SlmModule, head: Uint8Array, totalSize: number | undefined): unknown {
  if (totalSize === undefined) return undefined;
  try {
    module.free('slm_artifact_free', module.open('slm_artifact_new', head.subarray(0, HEADER_SIZE), BigInt(totalSize)).handle);
    return undefined;
  } catch (fault) {
    return fault;
  }
}

function withHint(fault: unknown, hint: string): unknown {
  if (!(fault instanceof SlmError) || hint === '') return fault;
  const facts = fault.facts();
  return new SlmError({ ...facts, message: facts.message + hint });
}

function abortOr(fault: unknown, signal: AbortSignal): unknown {
  return signal.aborted ? abortError() : fault;
}

function wait(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(done, milliseconds);
    function done(): void {
      signal.removeEventListener('abort', stop);
      resolve();
    }
    function stop(): void {
      clearTimeout(timer);
      reject(abortError());
    }
    signal.addEventListener('abort', stop, { once: true });
  });
}
