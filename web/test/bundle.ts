// Bundles and what a forger does to them, written without the program's code: bytes in, bytes out.
import { createHash } from 'node:crypto';

export interface Bundle {
  receipt: Buffer;
  nodes: Buffer[];
  blobs: Buffer[];
}

export function sha256(bytes: Uint8Array): Buffer {
  return createHash('sha256').update(bytes).digest();
}

/** Head of a CBOR item (RFC 8949, 3). */
export function head(major: number, value: number): Buffer {
  if (value < 24) return Buffer.from([(major << 5) | value]);
  if (value < 0x100) return Buffer.from([(major << 5) | 24, value]);
  if (value < 0x10000) return Buffer.from([(major << 5) | 25, value >> 8, value & 255]);
  const long = Buffer.from([(major << 5) | 26, 0, 0, 0, 0]);
  long.writeUInt32BE(value, 1);
  return long;
}

export function text(value: string): Buffer {
  const bytes = Buffer.from(value);
  return Buffer.concat([head(3, bytes.length), bytes]);
}

const byteString = (bytes: Buffer): Buffer => Buffer.concat([head(2, bytes.length), bytes]);

export function writeBundle({ receipt, nodes, blobs }: Bundle): Buffer {
  const array = (objects: Buffer[]): Buffer => {
    const known = new Map(objects.map((bytes) => [sha256(bytes).toString('hex'), bytes]));
    return Buffer.concat([head(4, known.size), ...[...known].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, bytes]) => byteString(bytes))]);
  };
  return Buffer.concat([head(5, 4), text('blobs'), array(blobs), text('nodes'), array(nodes), text('schema'), text('slm.bundle.v1'), text('receipt'), byteString(receipt)]);
}

export function readBundle(bytes: Buffer): Bundle {
  let at = 0;
  const item = (): unknown => {
    const first = bytes.readUInt8(at++);
    const size = { 24: 1, 25: 2, 26: 4 }[first & 31] ?? 0;
    const value = size === 0 ? first & 31 : bytes.readUIntBE(at, size);
    at += size;
    switch (first >> 5) {
      case 2:
      case 3: {
        const content = bytes.subarray(at, at + value);
        at += value;
        return first >> 5 === 2 ? content : content.toString();
      }
      case 4:
        return Array.from({ length: value }, item);
      case 5:
        return Object.fromEntries(Array.from({ length: value }, () => [item(), item()]));
      default:
        throw new Error(`a bundle holds no item of major type ${first >> 5}`);
    }
  };
  const map = item() as Bundle & { schema: string };
  if (at !== bytes.length) throw new Error('bytes after the bundle');
  return map;
}

export function replaceAll(bytes: Buffer, from: Buffer, to: Buffer): Buffer {
  const parts: Buffer[] = [];
  let begin = 0;
  for (let found = bytes.indexOf(from); found >= 0; found = bytes.indexOf(from, begin)) {
    parts.push(bytes.subarray(begin, found), to);
    begin = found + from.length;
  }
  return Buffer.concat([...parts, bytes.subarray(begin)]);
}

/** The node of this type; a preimage is the domain, the type, a map and the children's ids. */
export function nodeOf({ nodes }: Bundle, schema: string): Buffer {
  const found = nodes.filter((node) => node.includes(text(schema)));
  if (found.length !== 1) throw new Error(`${found.length} nodes of ${schema}`);
  return found[0] as Buffer;
}

/** Puts another object in the place of one, without a new hash anywhere: what damage does. */
export function damage(bundle: Bundle, old: Buffer, now: Buffer): Bundle {
  const swap = (list: Buffer[]): Buffer[] => list.map((bytes) => (bytes === old ? now : bytes));
  return { ...bundle, nodes: swap(bundle.nodes), blobs: swap(bundle.blobs) };
}

/** The same, and every id above made again: what a forger does. */
export function forge(bundle: Bundle, old: Buffer, now: Buffer): Bundle {
  const forged = damage(bundle, old, now);
  const changes: [Buffer, Buffer][] = [[sha256(old), sha256(now)]];
  for (let change = changes.shift(); change !== undefined; change = changes.shift()) {
    const [from, to] = change;
    if (forged.receipt.equals(from)) forged.receipt = to;
    forged.nodes = forged.nodes.map((node) => {
      if (!node.includes(from)) return node;
      const changed = replaceAll(node, from, to);
      changes.push([sha256(node), sha256(changed)]);
      return changed;
    });
  }
  return forged;
}
