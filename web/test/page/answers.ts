// Templates converted and rendered by the modules, and answers as a page and its runner compare them.
import { SlmError } from '../../src/errors.js';
import type { Halves } from '../../src/halves.js';
import type { SlmModule } from '../../src/module.js';

export interface Case {
  template: string;
  context: object;
  clock: string;
}
export interface Failure {
  code: string;
  message: string;
  stage?: string;
  line?: number;
  column?: number;
}
export interface Answer {
  text?: string;
  spans?: { begin: number; end: number; owner: string }[];
  insertion_ownership?: object;
  error?: Failure;
}

/** Everything that an answer says, but for what names its input. */
export function plain(answer: Answer): Answer {
  const { text, spans, insertion_ownership, error } = answer;
  if (error === undefined) return { text, spans, insertion_ownership } as Answer;
  const { code, message, stage, line, column } = error;
  return {
    error: { code, message, ...(stage !== undefined && { stage }), ...(line !== undefined && { line }), ...(column !== undefined && { column }) },
  };
}

function attempt<T>(work: () => T): T | SlmError {
  try {
    return work();
  } catch (fault) {
    if (fault instanceof SlmError) return fault;
    throw fault;
  }
}

export class Renderer {
  /** The program of each source, or the refusal. */
  readonly programs = new Map<string, Uint8Array | SlmError>();

  constructor(
    private readonly converter: SlmModule,
    private readonly model: Halves,
  ) {}

  programOf(source: string): Uint8Array | SlmError {
    const known = this.programs.get(source);
    if (known !== undefined) return known;
    const made = attempt(() => this.converter.bytes('slm_template_convert', source).slice());
    this.programs.set(source, made);
    return made;
  }

  answerOf(one: Case): Answer {
    const program = this.programOf(one.template);
    const answer = program instanceof SlmError ? program : attempt(() => this.model.render(JSON.stringify(one), program) as Answer);
    return plain(answer instanceof SlmError ? { error: answer.facts() } : answer);
  }
}
