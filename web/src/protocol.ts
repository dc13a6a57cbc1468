/** Messages between a page's thread and the worker that holds the model. */
import type { ErrorFacts } from './errors.js';
import type { CacheReport, Progress } from './load.js';
import type { SourceMessage } from './source.js';

/** What the worker is asked for. `record` and `cases` are JSON texts for the module. */
export type Request =
  | { type: 'load'; source: SourceMessage; maxPositions: number }
  | { type: 'tokenize' | 'detokenize' | 'render'; record: string }
  | { type: 'generate'; record: string; prefillChunk: number; top: number }
  | { type: 'observe'; options: { taps?: 'all' | string[]; top_k?: number; prefill_chunk?: number }; cases: string; like: Uint8Array | undefined };

export type ToWorker = { id: number; request: Request } | { id: number; abort: true };

export type FromWorker =
  | { id: number; result: unknown }
  | { id: number; error: ErrorFacts }
  | { id: number; aborted: true }
  | { id: number; event: WorkerEvent };

export type WorkerEvent =
  | { kind: 'progress'; progress: Progress }
  | { kind: 'prompt'; prompt: unknown; top: unknown }
  | { kind: 'token'; token: unknown; top: unknown }
  | { kind: 'case'; done: number; total: number };

/** What identity() says (BKD-02). */
export interface Identity {
  /** Content id of the artifact: its root. */
  artifact: string;
  /** SHA-256 of the WebAssembly module. */
  module: string;
  backend: { name: string; kernel: string; profile: string; threads: number; id: string };
  engine: EngineFacts;
}

export interface EngineFacts {
  /** "chromium", "firefox", "webkitgtk", "webkit", "node". */
  name: string;
  version: string;
  /** "V8", "SpiderMonkey", "JavaScriptCore". */
  javascript: string;
  /** As the browser states it. */
  userAgent: string;
  features: {
    simd: boolean;
    relaxedSimd: boolean;
    threads: boolean;
    crossOriginIsolated: boolean;
    secureContext: boolean;
    privateFileSystem: boolean;
  };
}

export interface LoadAnswer {
  identity: Identity;
  model: ModelFacts;
  cache: CacheReport;
}

/** What the artifact says of itself (slm_model_open). */
export interface ModelFacts {
  artifact: string;
  file_size: number;
  family: string;
  license: string;
  vocab_size: number;
  max_positions: number;
  n_layers: number;
  hidden_size: number;
  n_heads: number;
  n_kv_heads: number;
  head_dim: number;
  eos_token_ids: number[];
  tokenizer: boolean;
  template: boolean;
  /** Names that observe() can report. */
  observations: string[];
}
