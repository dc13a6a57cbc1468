/**
 * The WebAssembly module behind typed calls: src/capi/slm.h. One context; a call runs to its end on this thread.
 *
 * A module that ran out of memory in the middle of a call, or broke a rule of its own, is dropped: every later call
 * says so. What it had checked is lost with it.
 */
import { type ErrorAnswer, fromAnswer, hostError, SlmError } from './errors.js';

type Call = (...args: (number | bigint)[]) => number;

/** What a header says (slm_artifact_new). */
export interface ArtifactFacts {
  root: string;
  file_size: number;
  head_size: number;
  chunk_size: number;
  n_chunks: number;
  table_offset: number;
}

export class SlmModule {
  private readonly memory: WebAssembly.Memory;
  private readonly exports: Record<string, Call>;
  private readonly context: number;
  private readonly out: number; // room for a handle and for a hash
  private failure: SlmError | undefined;

  private constructor(instance: WebAssembly.Instance) {
    this.memory = instance.exports['memory'] as WebAssembly.Memory;
    this.exports = instance.exports as unknown as Record<string, Call>;
    const version = this.raw('slm_abi_version');
    if (version !== 2) throw hostError('UNSUPPORTED', `the module has ABI version ${version}, this package needs 2; load the page again`);
    this.context = this.raw('slm_context_new');
    this.out = this.raw('slm_alloc', 64);
    if (this.context === 0 || this.out === 0) throw hostError('MEMORY', 'no memory for the module itself');
  }

  static async instantiate(module: WebAssembly.Module): Promise<SlmModule> {
    const instance = await WebAssembly.instantiate(module, {}); // it needs nothing of its host
    (instance.exports['_initialize'] as () => void)();
    return new SlmModule(instance);
  }

  /** A view of the module's memory; it is gone when the memory grows, so it is taken anew for each use. */
  view(pointer: number, size: number): Uint8Array {
    return new Uint8Array(this.memory.buffer, pointer, size);
  }

  get memoryBytes(): number {
    return this.memory.buffer.byteLength;
  }

  /** A call with a context and a JSON answer. */
  json(name: string, ...args: (number | bigint | Uint8Array | string)[]): unknown {
    return JSON.parse(new TextDecoder().decode(this.bytes(name, ...args)));
  }

  /** The same with the answer's bytes as they are. Texts and arrays are passed as pointer and size. */
  bytes(name: string, ...args: (number | bigint | Uint8Array | string)[]): Uint8Array {
    const held: number[] = [];
    try {
      const flat: (number | bigint)[] = [this.context];
      for (const arg of args) {
        if (typeof arg === 'number' || typeof arg === 'bigint') {
          flat.push(arg);
          continue;
        }
        const data = typeof arg === 'string' ? new TextEncoder().encode(arg) : arg;
        const pointer = this.put(data);
        held.push(pointer);
        flat.push(pointer, data.length);
      }
      const status = this.raw(name, ...flat);
      const pointer = this.raw('slm_result_data', this.context);
      const result = this.view(pointer, this.raw('slm_result_size', this.context)).slice();
      if (status !== 0) throw refusal(result, status);
      return result;
    } finally {
      if (this.failure === undefined) for (const pointer of held) this.raw('slm_free', pointer);
    }
  }

  /** A call whose last argument receives a handle. */
  open(name: string, ...args: (number | bigint | Uint8Array | string)[]): { handle: number; answer: unknown } {
    const { handle, bytes } = this.openBytes(name, ...args);
    return { handle, answer: bytes.length === 0 ? null : JSON.parse(new TextDecoder().decode(bytes)) };
  }

  /** The same with the answer's bytes as they are. */
  openBytes(name: string, ...args: (number | bigint | Uint8Array | string)[]): { handle: number; bytes: Uint8Array } {
    const bytes = this.bytes(name, ...args, this.out);
    return { handle: new DataView(this.memory.buffer).getUint32(this.out, true), bytes };
  }

  /** A call without an answer. */
  free(name: string, handle: number): void {
    if (this.failure === undefined) this.raw(name, this.context, handle);
  }

  artifactBytes(artifact: number): number {
    return this.raw('slm_artifact_bytes', this.context, artifact);
  }

  /** Checks one chunk, by a hash that the host computed or (undefined) by the module's own. */
  checkChunk(artifact: number, index: number, sha256: Uint8Array | undefined): void {
    if (sha256 !== undefined) this.view(this.out, 32).set(sha256);
    this.bytes('slm_artifact_chunk', artifact, index, sha256 === undefined ? 0 : this.out);
  }

  /** A blob among the objects, by its id in hexadecimal. */
  blob(objects: number, id: string): Uint8Array {
    if (!/^[0-9a-f]{64}$/.test(id)) throw hostError('USAGE', 'an id has 64 hexadecimal digits', { field: 'id' });
    this.view(this.out, 32).set(Uint8Array.from(id.match(/../g) ?? [], (pair) => parseInt(pair, 16)));
    return this.bytes('slm_objects_get', objects, 0, this.out);
  }

  /** Whether it was dropped: every call is refused now. */
  get failed(): boolean {
    return this.failure !== undefined;
  }

  /** SHA-256 by the module's own code. */
  sha256(data: Uint8Array): Uint8Array {
    const pointer = this.put(data);
    this.raw('slm_sha256', pointer, data.length, this.out);
    this.raw('slm_free', pointer);
    return this.view(this.out, 32).slice();
  }

  private put(data: Uint8Array): number {
    const pointer = this.raw('slm_alloc', data.length);
    if (pointer === 0) throw this.memoryError();
    this.view(pointer, data.length).set(data);
    return pointer;
  }

  private raw(name: string, ...args: (number | bigint)[]): number {
    if (this.failure !== undefined) throw this.failure;
    const call = this.exports[name];
    if (call === undefined) throw hostError('INTERNAL', `the module has no ${name}`);
    try {
      return (call(...args) ?? 0) >>> 0;
    } catch (fault) {
      const sizes = this.memoryFault();
      this.failure =
        sizes.asked > 0
          ? this.memoryError()
          : hostError('INTERNAL', `the module stopped in ${name}: ${String(fault)}; load the model again`);
      throw this.failure;
    }
  }

  private memoryFault(): { asked: number; used: number; limit: number } {
    const pointer = (this.exports['slm_memory_fault'] as () => number)() >>> 0;
    const words = new DataView(this.memory.buffer);
    const word = (i: number): number => Number(words.getBigUint64(pointer + 8 * i, true));
    return { asked: word(0), used: word(1), limit: word(2) };
  }

  private memoryError(): SlmError {
    const { asked, used, limit } = this.memoryFault();
    return hostError('MEMORY', `${asked} bytes were asked for; memory in use: ${used} bytes, at most ${limit}`);
  }
}

function refusal(result: Uint8Array, status: number): SlmError {
  const answer = result.length === 0 ? {} : (JSON.parse(new TextDecoder().decode(result)) as { error?: ErrorAnswer });
  if (answer.error === undefined) return hostError('INTERNAL', `the module refused with number ${status} and no text`);
  return fromAnswer(answer.error);
}
