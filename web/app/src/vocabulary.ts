/** What single tokens stand for, asked of the model once each. */
import type { Model } from '../../src/client.js';

export class Vocabulary {
  private readonly known = new Map<number, Promise<Uint8Array>>();

  constructor(private readonly model: Model) {}

  bytes(id: number): Promise<Uint8Array> {
    let bytes = this.known.get(id);
    if (bytes === undefined) {
      bytes = this.model.detokenize([id], 'raw').then((answer) => answer.bytes);
      bytes.catch(() => this.known.delete(id));
      this.known.set(id, bytes);
    }
    return bytes;
  }
}

const decoder = new TextDecoder('utf-8', { fatal: true });

/** The text of bytes; undefined where they are not well-formed. */
export function textOf(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}
