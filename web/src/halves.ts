/**
 * One model in two modules that share no memory: slm.wasm has its weights and chooses ids, slm-text.wasm has its
 * tokenizer and template, makes ids of texts and texts of ids. What they say together is what `slm run` and
 * `slm observe` say.
 */
import { fromBase64 } from './base64.js';
import { hostError } from './errors.js';
import type { SlmModule } from './module.js';
import type { ModelFacts } from './protocol.js';

export interface Fed {
  n_fed: number;
  n_prompt: number;
  done: boolean;
}
export interface NextToken {
  id: number;
  done: boolean;
  [member: string]: unknown;
}
interface WithWarnings {
  warnings: string[];
  [member: string]: unknown;
}

export class Halves {
  readonly facts: ModelFacts;
  /** Handle in `core`, of the weights. */
  readonly model: number;
  /** Handle in `words`, of tokenizer and template. */
  readonly text: number;

  /** `artifact`: every chunk of it is checked in `core`; it is taken. */
  constructor(
    readonly core: SlmModule,
    readonly words: SlmModule,
    artifact: number,
  ) {
    const opened = core.open('slm_model_open', artifact);
    this.model = opened.handle;
    this.facts = opened.answer as ModelFacts;
    const text = words.open('slm_text_open', core.bytes('slm_model_texts', this.model));
    this.text = text.handle;
    const { artifact: root } = text.answer as { artifact: string };
    if (root !== this.facts.artifact) throw hostError('INTERNAL', `the texts are of the artifact ${root}`);
  }

  openSession(maxPositions: number): number {
    return this.core.open('slm_session_new', this.model, maxPositions).handle;
  }

  /** A record of the tokenizer or the template. */
  record(name: 'slm_tokenize' | 'slm_detokenize', record: string): unknown {
    return this.words.json(name, this.text, record);
  }

  render(record: string, program: Uint8Array): unknown {
    return this.words.json('slm_render', this.text, record, program);
  }

  /** A suite of cases; after each one it says how many have run. Returns the container. */
  *observe(options: object, cases: string | Uint8Array, like: Uint8Array): Generator<{ done: number; total: number }, Uint8Array> {
    const { core, words } = this;
    const texts = words.bytes('slm_text_cases', this.text, cases);
    const { handle, answer } = core.open('slm_observation_new', this.model, JSON.stringify(options), cases, texts, like);
    const { total } = answer as { total: number };
    try {
      for (let done = 0; done < total; ) {
        const ran = core.json('slm_observation_next', handle) as { done: number; ids?: number[] };
        if (ran.ids !== undefined) {
          const said = words.json('slm_detokenize', this.text, JSON.stringify({ ids: ran.ids, mode: 'visible' })) as { bytes: string };
          core.json('slm_observation_text', handle, fromBase64(said.bytes));
        }
        done = ran.done;
        yield { done, total };
      }
      return core.bytes('slm_observation_finish', handle);
    } finally {
      core.free('slm_observation_free', handle);
    }
  }
}

/** One generation: both halves of it, step by step. */
export class Run {
  /** What the model sees: ids, text, offsets, the rendered prompt; how many ids the session held already. */
  readonly prompt: { prompt_ids: number[]; n_fed: number; [member: string]: unknown };
  private readonly run: number;
  private readonly said: number;
  private readonly promptWarnings: string[];

  constructor(
    private readonly halves: Halves,
    session: number,
    record: string,
  ) {
    const { core, words, text } = halves;
    const { handle, bytes: prepared } = words.openBytes('slm_text_run_new', text, record);
    this.said = handle;
    try {
      const opened = core.open('slm_run_new', session, record, prepared);
      this.run = opened.handle;
      const { warnings, ...prompt } = JSON.parse(new TextDecoder().decode(prepared)) as WithWarnings & { prompt_ids: number[] };
      this.promptWarnings = warnings;
      this.prompt = { ...prompt, n_fed: (opened.answer as { n_fed: number }).n_fed };
    } catch (fault) {
      words.free('slm_text_run_free', this.said);
      throw fault;
    }
  }

  /** At most `count` further ids of the prompt; 0: all. */
  prefill(count: number): Fed {
    return this.halves.core.json('slm_run_prefill', this.run, count) as Fed;
  }

  next(): NextToken {
    const { core, words } = this.halves;
    const chosen = core.json('slm_run_next', this.run) as NextToken;
    const { stopped, ...visible } = words.json('slm_text_run_push', this.said, chosen.id) as { stopped: boolean };
    if (stopped) chosen.done = (core.json('slm_run_stop', this.run) as { done: boolean }).done;
    return { ...chosen, ...visible };
  }

  top(count: number): unknown {
    return this.halves.core.json('slm_run_top', this.run, count);
  }

  /** The answer of `slm run --batch`, with the text that was held back and the warnings. */
  finish(): WithWarnings {
    const said = this.halves.words.json('slm_text_run_finish', this.said) as WithWarnings;
    const ids = this.halves.core.json('slm_run_finish', this.run) as WithWarnings;
    return { ...ids, ...said, warnings: [...this.promptWarnings, ...ids.warnings, ...said.warnings] };
  }

  free(): void {
    this.halves.core.free('slm_run_free', this.run);
    this.halves.words.free('slm_text_run_free', this.said);
  }
}
