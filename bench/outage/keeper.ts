import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { OperatorProcess, OperatorProgram } from '../../operator/testing/program.ts';

/** A kubelet's back-off: the first restart is immediate, the next after 10 s, each further one after twice as long, at most 5 minutes. */
const BACK_OFF_MS = { first: 10_000, most: 300_000 };
const waitOf = (failures: number) =>
  failures < 2 ? 0 : Math.min(BACK_OFF_MS.first * 2 ** (failures - 2), BACK_OFF_MS.most);

/** An operator that is restarted whenever it ends, as in a pod. */
export interface RestartingOperator {
  /** How often it was started. */
  readonly starts: number;
  /** Resets the back-off, as a kubelet does after ten minutes without a failure. */
  forgive(): void;
  leads(): Promise<boolean>;
  stop(): Promise<void>;
}

export function keepRunning(program: OperatorProgram): RestartingOperator {
  const pod = { name: 'operator', uid: randomUUID() };
  const ending = new AbortController();
  let starts = 0;
  let failures = 0;
  let alive: OperatorProcess | undefined;

  async function run(): Promise<void> {
    for (; !ending.signal.aborted; failures += 1) {
      await pause(waitOf(failures), undefined, { signal: ending.signal }).catch(() => undefined);
      if (ending.signal.aborted) return;
      starts += 1;
      alive = await program.start(pod).catch(() => undefined);
      await alive?.gone;
      alive = undefined;
    }
  }

  const running = run();
  return {
    get starts() {
      return starts;
    },
    forgive() {
      failures = 0;
    },
    leads: async () => (await alive?.leads()) === true,
    async stop() {
      ending.abort();
      await alive?.kill();
      await running;
    },
  };
}
