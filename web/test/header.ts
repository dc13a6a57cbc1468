// Headers of .slm files with other sizes (docs/spec/slm.md, "Header"), for refusals.

/** CRC-32C (Castagnoli), RFC 3720. */
export function crcOf(bytes: Uint8Array): number {
  let crc = 0xffff_ffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f6_3b78 : crc >>> 1;
  }
  return (crc ^ 0xffff_ffff) >>> 0;
}

/** The same header for a data region of about `size` bytes. */
export function withFileSize(header: Uint8Array, size: number): Uint8Array {
  const changed = header.slice();
  const view = new DataView(changed.buffer);
  const manifestSize = Number(view.getBigUint64(32, true));
  const tableOffset = Math.ceil((192 + manifestSize) / 64) * 64;
  const tableSize = 32 * Math.ceil(size / 1048576);
  const dataOffset = Math.ceil((tableOffset + tableSize) / 65536) * 65536;
  const fields: [number, number][] = [
    [16, dataOffset + size],
    [40, tableOffset],
    [48, tableSize],
    [56, dataOffset],
    [64, size],
  ];
  for (const [at, value] of fields) view.setBigUint64(at, BigInt(value), true);
  view.setUint32(184, crcOf(changed.subarray(0, 184)), true);
  return changed;
}
