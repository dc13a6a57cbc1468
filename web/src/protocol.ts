/** Messages between a page's thread and the worker that holds the model. */
import type { ErrorFacts } from './errors.js';
import type { CacheReport, Progress } from './load.js';
import type { SourceMessage } from './source.js';

/** What the worker is asked for. `record` and `cases` are JSON texts for the module. */
export type Request =
  | { type: 'load'; source: SourceMessage; maxPositions: number }
  | { type: 'tokenize' | 'detokenize'; record: string }
  | { type: 'render'; record: string; template: string | undefined }
  | { type: 'generate'; record: string; prefillChunk: number; top: number }
  | { type: 'compare'; references: Uint8Array[]; candidate: Uint8Array; policy: Uint8Array | undefined }
  | { type: 'verify'; receipt: string; nodes: Uint8Array[]; blobs: Uint8Array[] }
  | { type: 'read-bundle'; bundle: Uint8Array }
  | { type: 'receipt-parts' | 'verify-kept'; receipt: string }
  | { type: 'blob'; id: string }
  | { type: 'promote'; base: string; candidate: Uint8Array; madeBy: string }
  | { type: 'write-bundle'; receipt: string; base: string | undefined }
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
  /** SHA-256 of the WebAssembly module that has the weights: it chose every id. */
  module: string;
  /** Of the one that has tokenizer and template: it made ids of texts, and texts of ids. */
  textModule: string;
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

/** Levels, arrays and tokens of a comparison: `slm compare --json` (docs/spec/comparison.md). */
export interface Comparison {
  policy: { name: string; version: number; sha256: string; margin_e: number };
  levels: Level[];
  truth: { verdict: Verdict; arrays: number; candidate: number; reference: number; source: number; summary: string };
  /** The first difference of all levels, in the order of the computation. */
  first: Record<string, unknown> | null;
  arrays: Record<string, unknown>[];
  tokens: Record<string, unknown>[];
  tokens_compared: number;
  tokens_unstable: number;
}
export type Verdict = 'pass' | 'fail' | 'error' | 'unstable' | 'not-claimed';
export interface Level {
  level: string;
  verdict: Verdict;
  summary: string;
  [key: string]: unknown;
}

/** `slm verify --json`: every claim recomputed, no stored verdict read. At most 1,000 problems stand in it. */
export interface Verification {
  receipt: string;
  holds: boolean;
  nodes: number;
  blobs: number;
  bytes: number;
  claims: { claim: string; state: 'holds' | 'fails' | 'unstable' | 'not-claimed'; detail: string; node: string; code?: string }[];
  n_problems: number;
  problems: { code: string; node: string; field: string; message: string }[];
  open_items: { what: string; settled_by: string }[];
  trusted_without_proof: string;
}

/** What a receipt names (slm_receipt_parts); nothing of it is recomputed. Ids are hexadecimal, of blobs. */
export interface ReceiptParts {
  backend: string;
  source: { name: string; revision: string };
  artifact: { root: string; sha256: string };
  cases: string;
  n_cases: number;
  policy: string;
  observation: string;
  evidence: { mode: string; blob: string }[];
  /** SHA-256 of the executable or module. */
  module: string;
  /** Of the module that had tokenizer and template, where that was another one. */
  text_module: string | null;
  /** Of a browser's observation: what it said of itself. */
  engine: Record<string, unknown> | null;
}

export interface BundleFacts {
  receipt: string;
  nodes: number;
  blobs: number;
}

export interface Promoted {
  receipt: string;
  holds: boolean;
  comparison: Comparison;
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
