/** A writer that changes a ledger all the time, and records what was confirmed. */
import { setTimeout as pause } from 'node:timers/promises';
import type { Kube } from '../space/kube.ts';

const PAUSE_MS = 100;
const FIRST_YEAR = 2001;

export interface Written {
  /** Idempotency keys of entries that were confirmed. */
  readonly entries: readonly string[];
  /** Confirmed statements by month, each of which is a file. */
  readonly statements: ReadonlyMap<string, string>;
  /** The number of requests that were not confirmed. */
  readonly failed: number;
  /** The longest time without a confirmed request, in milliseconds. */
  readonly longestGapMs: number;
}

export interface LedgerLoad {
  /** What was confirmed until now. */
  readonly written: Written;
  stop(): Promise<Written>;
}

export function startLedgerLoad(kube: Kube, namespace: string): LedgerLoad {
  const entries: string[] = [];
  const statements = new Map<string, string>();
  let [failed, longestGapMs] = [0, 0];
  let last = performance.now();
  const answered = () => {
    longestGapMs = Math.max(longestGapMs, performance.now() - last);
    last = performance.now();
  };
  const ask = (path: string, body: object) => kube.proxy(namespace, 'ledger:8080', path, body);

  async function write(number: number): Promise<void> {
    const key = `load-${number}`;
    const lines = [
      { account: 'assets:bank', currency: 'EUR', amount: `${number + 1}.00` },
      { account: 'equity:opening', currency: 'EUR', amount: `-${number + 1}.00` },
    ];
    const month = `${FIRST_YEAR + Math.floor(number / 12)}-${String((number % 12) + 1).padStart(2, '0')}`;
    await ask('/entries', { date: `${month}-01`, description: key, idempotency_key: key, lines });
    entries.push(key);
    answered();
    const { statement } = (await ask(`/statements/${month}`, {})) as { statement: string };
    statements.set(month, statement);
    answered();
  }

  let stopped = false;
  const written = () => ({ entries, statements, failed, longestGapMs });
  const running = (async () => {
    for (let number = 0; !stopped; number += 1) {
      await write(number).catch(() => {
        failed += 1;
      });
      await pause(PAUSE_MS);
    }
  })();
  return {
    get written() {
      return written();
    },
    async stop() {
      stopped = true;
      await running;
      return written();
    },
  };
}
