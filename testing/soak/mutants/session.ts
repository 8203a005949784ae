import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { ROOT } from './files.ts';
import type { Change } from './operators.ts';

/** The first argument of the process. */
export interface Begin {
  readonly file: string;
  readonly tests: readonly string[];
}

export interface Result {
  /** The first test that failed. */
  readonly by: string | undefined;
  readonly tests: number;
}

type Verdict = 'killed' | 'timed out' | 'survived';

/** A mutant counts as hanging after this many times the duration of the original, or after this time. */
const PATIENCE = { times: 10, atLeastMs: 30_000 };
const NOTHING: Change = { start: 0, end: 0, instead: '' };

/** Tries the mutants of one file in a process, which is replaced if a mutant hangs. */
export class Session {
  readonly #begin: Begin;
  #child: ChildProcess | undefined;
  #patienceMs = 0;

  constructor(begin: Begin) {
    this.#begin = begin;
  }

  async try({ start, end, instead }: Change): Promise<Verdict> {
    const child = this.#child ?? (await this.#start());
    child.send({ start, end, instead });
    const result = await this.#answer(child, this.#patienceMs);
    if (result === undefined) {
      await this.close();
      return 'timed out';
    }
    return result.by === undefined ? 'survived' : 'killed';
  }

  async close(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const closed = once(child, 'close');
    child.kill('SIGKILL');
    await closed;
  }

  /** @throws Error unless the tests pass without a mutation, since only then a failure means something */
  async #start(): Promise<ChildProcess> {
    const program = join(import.meta.dirname, 'child.ts');
    const child = fork(program, [ROOT, JSON.stringify(this.#begin)], { cwd: ROOT, stdio: 'ignore' });
    this.#child = child;
    const first = await this.#answer(child, undefined);
    // The second run is timed, since the first also compiles everything that is imported.
    const began = performance.now();
    child.send(NOTHING);
    const unbroken = first && (await this.#answer(child, undefined));
    if (unbroken === undefined || unbroken.by !== undefined || unbroken.tests === 0) {
      await this.close();
      throw new Error(
        `without a mutant, the tests of ${this.#begin.file} do not pass: ${unbroken?.by ?? 'no test ran'}`,
      );
    }
    this.#patienceMs = Math.max(PATIENCE.atLeastMs, PATIENCE.times * Math.ceil(performance.now() - began));
    return child;
  }

  /** Undefined if the process has ended, or did not answer in time. */
  async #answer(child: ChildProcess, withinMs: number | undefined): Promise<Result | undefined> {
    const done = new AbortController();
    const within = withinMs === undefined ? [] : [AbortSignal.timeout(withinMs)];
    const signal = AbortSignal.any([done.signal, ...within]);
    const nothing = () => undefined;
    try {
      return await Promise.race([
        once(child, 'message', { signal }).then(([result]) => result as Result, nothing),
        once(child, 'close', { signal }).then(nothing, nothing),
      ]);
    } finally {
      done.abort();
    }
  }
}
