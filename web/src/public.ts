/** What the package's entries for browsers and for Node share. */
export { Evidence, Generation, Model } from './client.js';
export type {
  Answer,
  CompareOptions,
  Encoding,
  GenerateInput,
  GenerateOptions,
  LoadModelOptions,
  Message,
  ModelSource,
  ObserveOptions,
  Offsets,
  PromoteOptions,
  Prompt,
  RemoteModel,
  Rendered,
  Sampling,
  Span,
  Token,
  TokenizeOptions,
  Top,
  VerifyOptions,
} from './client.js';
export { SlmError, type ErrorFacts } from './errors.js';
export type { CacheReport, Progress } from './load.js';
export type { BundleFacts, Comparison, EngineFacts, Identity, Level, ModelFacts, Promoted, ReceiptParts, Verdict, Verification } from './protocol.js';
export { findLoneSurrogate, type RecordValue } from './record.js';
