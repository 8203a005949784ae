import { createRenderer, type Output, type StepState } from './render.ts';

/**
 * Something that steps belong to: the whole command, or a step that has steps inside. Steps may run at the same time.
 */
export interface Steps {
  /** Runs `work` as a step. When it throws, the step shows the cause and the end of the log that explains it. */
  run<T>(title: string, work: (step: Step) => Promise<T>): Promise<T>;
  /** Every step so far in the order of starting, for a closing table. */
  summary(): readonly StepSummary[];
}

export interface Step extends Steps {
  /** What is being done or waited for now; at the end the result ("already there"). */
  note(text: string): void;
  /** The log whose last lines explain a failure of this step. */
  explain(logFile: string): void;
}

export interface StepSummary {
  readonly title: string;
  /** 0 for a step of the command itself. */
  readonly depth: number;
  readonly seconds: number;
  readonly outcome: 'running' | 'done' | 'failed';
  readonly note: string;
}

interface Options {
  readonly output: Output;
  /** Milliseconds of a monotonic clock. */
  readonly now: () => number;
}

/** The steps of one command, shown live on a terminal and as plain lines elsewhere; `close` ends the live part. */
export function createSteps(options: Partial<Options> = {}): Steps & { close(): void } {
  const now = options.now ?? (() => performance.now());
  const renderer = createRenderer(options.output ?? process.stderr, now);
  const all: StepState[] = [];

  async function run<T>(
    parent: StepState | undefined,
    title: string,
    work: (step: Step) => Promise<T>,
  ): Promise<T> {
    const state: StepState = {
      title,
      depth: parent === undefined ? 0 : parent.depth + 1,
      started: now(),
      ended: undefined,
      outcome: 'running',
      note: '',
      log: undefined,
      error: undefined,
    };
    all.splice(placeOf(all, parent), 0, state);
    renderer.started(state, all);
    try {
      const result = await work({
        run: (inner, innerWork) => run(state, inner, innerWork),
        summary,
        note: (text) => {
          state.note = text;
        },
        explain: (logFile) => {
          state.log = logFile;
        },
      });
      state.outcome = 'done';
      return result;
    } catch (error) {
      state.outcome = 'failed';
      state.error = error;
      throw error;
    } finally {
      state.ended = now();
      renderer.ended(state, all);
    }
  }

  const summary = (): readonly StepSummary[] =>
    all.map(({ title, depth, started, ended, outcome, note }) => ({
      title,
      depth,
      seconds: ((ended ?? now()) - started) / 1000,
      outcome,
      note,
    }));

  return { run: (title, work) => run(undefined, title, work), summary, close: () => renderer.close(all) };
}

/** A step comes after the last step of its parent's family, so that the list reads as a tree. */
function placeOf(all: readonly StepState[], parent: StepState | undefined): number {
  if (parent === undefined) return all.length;
  let index = all.indexOf(parent) + 1;
  while (index < all.length && (all[index]?.depth ?? 0) > parent.depth) index += 1;
  return index;
}
