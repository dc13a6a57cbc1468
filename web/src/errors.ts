/**
 * Errors of the package. `code` and `number` are those of docs/spec/errors.md, also where the host finds the
 * fault and not the module.
 */

/** Codes that the host itself raises. A test holds them against src/base/errors.def. */
export const HOST_CODES = {
  USAGE: 1,
  INTERNAL: 2,
  IO: 3,
  'NOT-FOUND': 5,
  MEMORY: 6,
  UNSUPPORTED: 7,
  UTF8: 9,
  'SLM-SIZE': 501,
} as const;

export type HostCode = keyof typeof HOST_CODES;

/** What an error says; members that do not apply are absent. */
export interface ErrorFacts {
  code: string;
  number: number;
  message: string;
  /** Where the fault stands in the input. */
  byteOffset?: number;
  /** Key, tensor, chunk ("chunk 3") or member path of the input. */
  field?: string;
  /** Of chat templates: "convert" or "render", with line and column from 1. */
  stage?: string;
  line?: number;
  column?: number;
  /** Of text that is no well-formed UTF-16: index of the first lone surrogate. */
  index?: number;
  /** Whether the same call may work when it is tried again: a network fault, a full disk. */
  retryable?: boolean;
}

export class SlmError extends Error {
  readonly code: string;
  readonly number: number;
  readonly byteOffset?: number;
  readonly field?: string;
  readonly stage?: string;
  readonly line?: number;
  readonly column?: number;
  readonly index?: number;
  readonly retryable: boolean;
  private readonly text: string;

  constructor(facts: ErrorFacts) {
    super(`${facts.code}: ${facts.message}`);
    this.name = 'SlmError';
    this.text = facts.message;
    this.code = facts.code;
    this.number = facts.number;
    this.retryable = facts.retryable ?? false;
    if (facts.byteOffset !== undefined) this.byteOffset = facts.byteOffset;
    if (facts.field !== undefined) this.field = facts.field;
    if (facts.stage !== undefined) this.stage = facts.stage;
    if (facts.line !== undefined) this.line = facts.line;
    if (facts.column !== undefined) this.column = facts.column;
    if (facts.index !== undefined) this.index = facts.index;
  }

  /** Plain data that survives a message to another thread. */
  facts(): ErrorFacts {
    const facts: ErrorFacts = { code: this.code, number: this.number, message: this.text, retryable: this.retryable };
    if (this.byteOffset !== undefined) facts.byteOffset = this.byteOffset;
    if (this.field !== undefined) facts.field = this.field;
    if (this.stage !== undefined) facts.stage = this.stage;
    if (this.line !== undefined) facts.line = this.line;
    if (this.column !== undefined) facts.column = this.column;
    if (this.index !== undefined) facts.index = this.index;
    return facts;
  }
}

export function hostError(code: HostCode, message: string, more: Partial<ErrorFacts> = {}): SlmError {
  return new SlmError({ ...more, code, number: HOST_CODES[code], message });
}

/** The member `error` of an answer of the module, as docs/spec/cli.md has it. */
export interface ErrorAnswer {
  code: string;
  number: number;
  message: string;
  byte_offset?: number;
  field?: string;
  stage?: string;
  line?: number;
  column?: number;
}

export function fromAnswer(answer: ErrorAnswer): SlmError {
  const { byte_offset: byteOffset, ...rest } = answer;
  return new SlmError(byteOffset === undefined ? rest : { ...rest, byteOffset });
}

export function abortError(): DOMException {
  return new DOMException('The operation was aborted.', 'AbortError');
}
