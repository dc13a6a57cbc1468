/**
 * Models in the origin private file system, by content id. A file holds verified bytes from the start on; its size says
 * how far it came, so that an interrupted download goes on. Everything is hashed again when it is opened.
 *
 * One tab writes a file at a time. Others read what is there, and do without the cache for the rest.
 */

/** Of the File System standard; lib.dom knows it only for workers. */
interface SyncAccessHandle {
  read(data: Uint8Array, options: { at: number }): number;
  write(data: Uint8Array, options: { at: number }): number;
  truncate(size: number): void;
  flush(): void;
  close(): void;
}
interface WritableFile extends FileSystemFileHandle {
  /** Of the modes, engines that know none ignore it and lock the file for this handle alone. */
  createSyncAccessHandle?(options?: { mode: 'read-only' | 'readwrite' }): Promise<SyncAccessHandle>;
}

/** A stored file; `read` gives how many bytes it put into `into`. */
export interface DirectReader {
  read(into: Uint8Array, at: number): number;
  close(): void;
}

const FOLDER = 'slm-models';

export class CachedModel {
  private handle: SyncAccessHandle | undefined;

  private constructor(
    private readonly directory: FileSystemDirectoryHandle,
    private readonly file: WritableFile,
    private readonly name: string,
    /** The bytes that are there already. */
    readonly stored: Blob,
  ) {}

  static async open(root: FileSystemDirectoryHandle, contentId: string): Promise<CachedModel> {
    const directory = await root.getDirectoryHandle(FOLDER, { create: true });
    const name = `${contentId}.slm`;
    const file: WritableFile = await directory.getFileHandle(name, { create: true });
    return new CachedModel(directory, file, name, await file.getFile());
  }

  /**
   * Reads what is stored straight into memory that the caller gives, or undefined where another tab holds the file or
   * the browser cannot: a Blob of it is passed between processes and copied twice more.
   */
  async openDirect(): Promise<DirectReader | undefined> {
    const handle = await this.file.createSyncAccessHandle?.({ mode: 'read-only' }).catch(() => undefined);
    if (handle === undefined) return undefined;
    return {
      read: (into, at) => handle.read(into, { at }),
      close: () => {
        handle.close();
      },
    };
  }

  /** Starts to write after `size` verified bytes. A reason, for people, where that cannot be. */
  async beginWriting(size: number): Promise<string | undefined> {
    if (this.file.createSyncAccessHandle === undefined) return 'this browser cannot write its private files';
    try {
      this.handle = await this.file.createSyncAccessHandle();
      this.handle.truncate(size);
      return undefined;
    } catch (fault) {
      return isQuota(fault) ? QUOTA : 'another tab is storing this model';
    }
  }

  /** Appends verified bytes. A reason where they could not be stored; nothing more is written then. */
  write(bytes: Uint8Array, at: number): string | undefined {
    if (this.handle === undefined) return undefined;
    try {
      if (this.handle.write(bytes, { at }) === bytes.length) return undefined;
    } catch (fault) {
      if (!isQuota(fault)) {
        this.giveUp(at);
        return `storing failed (${String(fault)})`;
      }
    }
    this.giveUp(at);
    return QUOTA;
  }

  /** Keeps what was written. */
  close(): void {
    try {
      this.handle?.flush();
    } finally {
      this.handle?.close();
      this.handle = undefined;
    }
  }

  async remove(): Promise<void> {
    this.close();
    await this.directory.removeEntry(this.name).catch(() => undefined);
  }

  private giveUp(size: number): void {
    try {
      this.handle?.truncate(size);
    } finally {
      this.close();
    }
  }
}

const QUOTA = "there is no room left in the browser's storage for this model";

function isQuota(fault: unknown): boolean {
  return fault instanceof DOMException && fault.name === 'QuotaExceededError';
}
