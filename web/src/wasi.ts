/**
 * The WASI calls that wasi-libc needs. There is no file system, no clock, no environment and no randomness: file
 * descriptor 1 carries the module's progress lines, and nothing else can be opened or read. A test holds the list.
 */

const ESUCCESS = 0;
const EBADF = 8;
const STDOUT = 1;
const STDERR = 2;

export interface WasiHost {
  imports: { wasi_snapshot_preview1: Record<string, (...args: number[]) => number> };
  /** Gives the host the memory of the instance, once it is there. */
  bind(memory: WebAssembly.Memory): void;
}

export function makeWasiImports(onLine: (line: string) => void): WasiHost {
  let memory: WebAssembly.Memory | undefined;
  let pending = new Uint8Array(0);

  function push(bytes: Uint8Array): void {
    const all = new Uint8Array(pending.length + bytes.length);
    all.set(pending);
    all.set(bytes, pending.length);
    let begin = 0;
    for (let end = all.indexOf(10); end >= 0; end = all.indexOf(10, begin)) {
      onLine(new TextDecoder().decode(all.subarray(begin, end)));
      begin = end + 1;
    }
    pending = all.slice(begin);
  }

  function fdWrite(fd: number, iovs: number, nIovs: number, nWritten: number): number {
    if (memory === undefined || (fd !== STDOUT && fd !== STDERR)) return EBADF;
    const words = new DataView(memory.buffer);
    let total = 0;
    for (let i = 0; i < nIovs; i++) {
      const pointer = words.getUint32(iovs + 8 * i, true);
      const size = words.getUint32(iovs + 8 * i + 4, true);
      if (fd === STDOUT) push(new Uint8Array(memory.buffer, pointer, size).slice());
      total += size;
    }
    words.setUint32(nWritten, total, true);
    return ESUCCESS;
  }

  return {
    imports: { wasi_snapshot_preview1: { fd_write: fdWrite } },
    bind(of: WebAssembly.Memory): void {
      memory = of;
    },
  };
}
