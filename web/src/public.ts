/** What the package's entries for browsers and for Node share. */
export { Generation, Model } from './client.js';
export type {
  Answer,
  Encoding,
  GenerateInput,
  GenerateOptions,
  LoadModelOptions,
  Message,
  ModelSource,
  ObserveOptions,
  Offsets,
  Prompt,
  Rendered,
  Sampling,
  Span,
  Token,
  TokenizeOptions,
  Top,
} from './client.js';
export { SlmError, type ErrorFacts } from './errors.js';
export type { CacheReport, Progress } from './load.js';
export type { EngineFacts, Identity, ModelFacts } from './protocol.js';
export { findLoneSurrogate, type RecordValue } from './record.js';
