// How the generated tables are declared. Natively they are constants. In the WebAssembly module, whose size
// counts, tools/pack_unicode.py packs them, and they are unpacked before anything else runs.
#ifndef SLM_UNICODE_TABLE_H_
#define SLM_UNICODE_TABLE_H_

#ifdef __wasm__
#define SLM_UNICODE_TABLE
#else
#define SLM_UNICODE_TABLE const
#endif

#endif  // SLM_UNICODE_TABLE_H_
