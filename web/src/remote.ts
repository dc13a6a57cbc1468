/**
 * A byte source behind a message port: one side fetches (serveSource), the other reads (RemoteSource) and needs no network
 * of its own. Pieces are moved, not copied; one is fetched ahead.
 */
import { abortError, type ErrorFacts, hostError, SlmError } from './errors.js';
import type { ByteSource, ByteStream } from './source.js';

type Ask = { ask: number } & ({ open: number } | { read: number } | { cancel: number });
type Reply = { ask: number } & (
  | { opened: number; totalSize: number | undefined; hint: string }
  | { piece: Uint8Array | undefined }
  | { error: ErrorFacts }
);

export function serveSource(source: ByteSource, port: MessagePort): void {
  const streams = new Map<number, { stream: ByteStream; next: Promise<Uint8Array | undefined> | undefined; stop: AbortController }>();
  let n = 0;
  const handle = async (ask: Ask): Promise<Reply> => {
    if ('open' in ask) {
      const stop = new AbortController();
      const stream = await source.open(ask.open, stop.signal);
      streams.set(++n, { stream, next: undefined, stop });
      return { ask: ask.ask, opened: n, totalSize: stream.totalSize, hint: source.hint };
    }
    const id = 'read' in ask ? ask.read : ask.cancel;
    const held = streams.get(id);
    if (held === undefined || 'cancel' in ask) {
      streams.delete(id);
      held?.stop.abort();
      held?.stream.cancel();
      return { ask: ask.ask, piece: undefined };
    }
    const piece = await (held.next ?? held.stream.read());
    held.next = piece === undefined ? undefined : held.stream.read();
    held.next?.catch(() => undefined); // told to whoever reads next
    return { ask: ask.ask, piece };
  };
  port.onmessage = (event: MessageEvent<Ask>) => {
    handle(event.data)
      .catch((fault: unknown): Reply => {
        const error = fault instanceof SlmError ? fault : hostError('IO', String(fault), { retryable: true });
        return { ask: event.data.ask, error: error.facts() };
      })
      .then((reply) => {
        const piece = 'piece' in reply ? reply.piece : undefined;
        const whole = piece !== undefined && piece.length === piece.buffer.byteLength;
        port.postMessage(reply, whole ? [piece.buffer as ArrayBuffer] : []);
      })
      .catch(() => undefined); // the port is closed
  };
}

export class RemoteSource implements ByteSource {
  readonly canResume = true;
  hint = '';
  private asked = 0;
  private readonly waiting = new Map<number, (reply: Reply) => void>();

  constructor(
    private readonly port: MessagePort,
    readonly name: string,
  ) {
    port.onmessage = (event: MessageEvent<Reply>) => {
      this.waiting.get(event.data.ask)?.(event.data);
      this.waiting.delete(event.data.ask);
    };
  }

  async open(offset: number, signal: AbortSignal): Promise<ByteStream> {
    const reply = await this.ask({ open: offset }, signal);
    if (!('opened' in reply)) throw hostError('INTERNAL', 'the loader gave another answer than was asked for');
    this.hint = reply.hint;
    const { opened, totalSize } = reply;
    return {
      totalSize,
      read: async () => {
        const next = await this.ask({ read: opened }, signal);
        return 'piece' in next ? next.piece : undefined;
      },
      cancel: () => {
        this.port.postMessage({ ask: ++this.asked, cancel: opened });
      },
    };
  }

  private async ask(what: { open: number } | { read: number }, signal: AbortSignal): Promise<Reply> {
    if (signal.aborted) throw abortError();
    const ask = ++this.asked;
    let stop: () => void = () => undefined;
    try {
      const reply = await new Promise<Reply>((resolve, reject) => {
        stop = () => {
          this.waiting.delete(ask);
          reject(abortError());
        };
        signal.addEventListener('abort', stop, { once: true });
        this.waiting.set(ask, resolve);
        this.port.postMessage({ ask, ...what });
      });
      if ('error' in reply) throw new SlmError(reply.error);
      return reply;
    } finally {
      signal.removeEventListener('abort', stop);
    }
  }
}
