/** What the engine that runs this has (BKD-02), found by asking it, not by its name. */
import type { EngineFacts } from './protocol.js';

// (module (func (result v128) i32.const 0 i8x16.splat)), and the same with i8x16.relaxed_swizzle.
const HEAD = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0];
const SIMD = new Uint8Array([...HEAD, 10, 8, 1, 6, 0, 65, 0, 253, 15, 11]);
const RELAXED_SIMD = new Uint8Array([...HEAD, 10, 15, 1, 13, 0, 65, 0, 253, 15, 65, 0, 253, 15, 253, 128, 2, 11]);

export function detectFeatures(privateFileSystem: boolean): EngineFacts['features'] {
  return {
    simd: WebAssembly.validate(SIMD),
    relaxedSimd: WebAssembly.validate(RELAXED_SIMD),
    threads: typeof SharedArrayBuffer !== 'undefined',
    crossOriginIsolated: globalThis.crossOriginIsolated === true,
    secureContext: globalThis.isSecureContext === true,
    privateFileSystem,
  };
}

/** Name and version from the user agent. WebKit on Linux is WebKitGTK; it is not Safari. */
export function describeBrowser(userAgent: string): Omit<EngineFacts, 'features'> {
  const found = (pattern: RegExp): string | undefined => pattern.exec(userAgent)?.[1];
  const firefox = found(/Firefox\/(\S+)/);
  if (firefox !== undefined) return { name: 'firefox', version: firefox, javascript: 'SpiderMonkey', userAgent };
  const chromium = found(/(?:Chrome|Chromium)\/(\S+)/);
  if (chromium !== undefined) return { name: 'chromium', version: chromium, javascript: 'V8', userAgent };
  const webkit = found(/AppleWebKit\/(\S+)/) ?? 'unknown';
  const name = /Linux|X11/.test(userAgent) ? 'webkitgtk' : 'webkit';
  return { name, version: found(/Version\/(\S+)/) ?? webkit, javascript: 'JavaScriptCore', userAgent };
}
