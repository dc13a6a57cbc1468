/** Where the bytes of an artifact come from: a URL, a Blob or File, or a buffer. */
import { abortError, hostError, type SlmError } from './errors.js';
import { RemoteSource } from './remote.js';

const SLICE = 4 << 20; // bytes of a file that are read at once

/** What crosses to the worker. */
export type SourceMessage =
  | { kind: 'url'; url: string }
  | { kind: 'blob'; blob: Blob; name: string }
  | { kind: 'port'; port: MessagePort; name: string }
  | { kind: 'bytes'; bytes: Uint8Array };

/** Bytes in order, from the offset that was asked for. */
export interface ByteStream {
  /** Size of the whole file where the source states it. */
  readonly totalSize: number | undefined;
  /** The next piece; undefined at the end. */
  read(): Promise<Uint8Array | undefined>;
  cancel(): void;
}

export interface ByteSource {
  readonly name: string;
  /** Whether a stream that broke may be opened again where it stopped. */
  readonly canResume: boolean;
  /** A hint for people where the bytes are no artifact, e.g. that the server sent a page. */
  readonly hint: string;
  open(offset: number, signal: AbortSignal): Promise<ByteStream>;
}

export function openSource(message: SourceMessage): ByteSource {
  switch (message.kind) {
    case 'url':
      return new UrlSource(message.url);
    case 'blob':
      return new BlobSource(message.blob, message.name);
    case 'port':
      return new RemoteSource(message.port, message.name);
    case 'bytes':
      return new BufferSource(message.bytes);
  }
}

/** The same source, its first bytes on their way already. `drop` ends them where nobody came to ask. */
export function opening(source: ByteSource, signal: AbortSignal): { source: ByteSource; drop(): void } {
  let first: Promise<ByteStream> | undefined = source.open(0, signal);
  first.catch(() => undefined); // for whoever asks
  const take = (): Promise<ByteStream> | undefined => {
    const taken = first;
    first = undefined;
    return taken;
  };
  return {
    source: {
      name: source.name,
      canResume: source.canResume,
      get hint() {
        return source.hint;
      },
      open: (offset, control) => (offset === 0 ? take() : undefined) ?? source.open(offset, control),
    },
    drop: () => {
      void take()?.then((stream) => {
        stream.cancel();
      }, () => undefined);
    },
  };
}

class BufferSource implements ByteSource {
  readonly name = 'the buffer';
  readonly canResume = false;
  readonly hint = '';
  constructor(private readonly bytes: Uint8Array) {}

  open(offset: number): Promise<ByteStream> {
    let rest: Uint8Array | undefined = this.bytes.subarray(offset);
    return Promise.resolve({
      totalSize: this.bytes.length,
      read: () => {
        const piece = rest;
        rest = undefined;
        return Promise.resolve(piece);
      },
      cancel: () => {
        rest = undefined;
      },
    });
  }
}

export class BlobSource implements ByteSource {
  readonly canResume = false;
  readonly hint = '';
  constructor(
    private readonly blob: Blob,
    readonly name: string,
  ) {}

  // In slices, one read ahead: a Blob's own stream comes in pieces of 64 KiB, which browsers hand over one by one.
  open(offset: number, signal: AbortSignal): Promise<ByteStream> {
    const { blob, name } = this;
    let at = offset;
    const begin = (): Promise<ArrayBuffer> | undefined => {
      if (at >= blob.size) return undefined;
      const slice = blob.slice(at, at + SLICE).arrayBuffer();
      slice.catch(() => undefined); // told to whoever reads it
      at += SLICE;
      return slice;
    };
    let ahead = begin();
    return Promise.resolve({
      totalSize: blob.size,
      async read() {
        const slice = ahead;
        ahead = undefined;
        if (signal.aborted) throw abortError();
        if (slice === undefined) return undefined;
        ahead = begin();
        const bytes = await slice.catch((fault: unknown) => {
          throw hostError('IO', `${name} cannot be read (${String(fault)}); choose it again`, { retryable: true });
        });
        if (signal.aborted) throw abortError();
        return new Uint8Array(bytes);
      },
      cancel() {
        ahead = undefined;
        at = blob.size;
      },
    });
  }
}

class UrlSource implements ByteSource {
  readonly canResume = true;
  hint = '';
  constructor(readonly name: string) {}

  async open(offset: number, signal: AbortSignal): Promise<ByteStream> {
    const headers: Record<string, string> = offset > 0 ? { Range: `bytes=${offset}-` } : {};
    let response: Response;
    try {
      response = await fetch(this.name, { headers, signal });
    } catch (fault) {
      if (signal.aborted) throw abortError();
      throw hostError('IO', `${this.name} cannot be fetched (${String(fault)}); check the connection and try again`, {
        retryable: true,
      });
    }
    this.noteType(response);
    const whole = response.status === 200;
    if (!whole && !(response.status === 206 && offset > 0)) throw this.refusal(response.status, offset);
    if (response.body === null) throw hostError('IO', `${this.name} has no body`, { retryable: true });
    const range = /^bytes (\d+)-\d+\/(\d+)$/.exec(response.headers.get('content-range') ?? '');
    if (!whole && (range === null || Number(range[1]) !== offset)) {
      await response.body.cancel();
      throw hostError('IO', `${this.name}: the server answered with another range than was asked for`);
    }
    // Content-Length counts encoded bytes where there is an encoding.
    const length = response.headers.has('content-encoding') ? null : response.headers.get('content-length');
    const totalSize = whole ? (length === null ? undefined : Number(length)) : Number(range?.[2]);
    // A server that ignores the range sends everything again: what is there already is skipped.
    return streamOf(response.body, totalSize, whole ? offset : 0, signal);
  }

  private noteType(response: Response): void {
    const type = response.headers.get('content-type') ?? '';
    const page = /^text\/|html/.test(type);
    const moved = response.redirected ? ` after a redirect to ${response.url}` : '';
    this.hint = page ? `; the server sent ${type}${moved}: this is a page, not a model file` : '';
  }

  private refusal(status: number, offset: number): SlmError {
    if (status === 404 || status === 410) {
      return hostError('NOT-FOUND', `${this.name}: the server has no such file (${status}); check the address`);
    }
    if (status === 416) {
      return hostError('SLM-SIZE', `${this.name} ends at or before byte ${offset}: the file is cut off`, { byteOffset: offset });
    }
    return hostError('IO', `${this.name}: the server answered with status ${status}`, { retryable: status >= 500 || status === 429 });
  }
}

function streamOf(
  body: ReadableStream<Uint8Array>,
  totalSize: number | undefined,
  skip: number,
  signal: AbortSignal,
): ByteStream {
  const reader = body.getReader();
  let left = skip;
  return {
    totalSize,
    async read() {
      for (;;) {
        let piece: Uint8Array | undefined;
        try {
          piece = (await reader.read()).value;
        } catch (fault) {
          if (signal.aborted) throw abortError();
          throw hostError('IO', `the connection broke (${String(fault)}); try again to go on from here`, { retryable: true });
        }
        if (signal.aborted) {
          void reader.cancel().catch(() => undefined);
          throw abortError();
        }
        if (piece === undefined || left === 0) return piece;
        const skipped = Math.min(left, piece.length);
        left -= skipped;
        if (skipped < piece.length) return piece.subarray(skipped);
      }
    },
    cancel() {
      void reader.cancel().catch(() => undefined);
    },
  };
}
