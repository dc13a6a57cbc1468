// Answers to rendering, as a page and its runner compare them.
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
