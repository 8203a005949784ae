import { ConcurrencyLimit, type Logger } from '@space/broker-kit';
import type { S3Client } from '../upstream/types.ts';
import { listedUnder } from './listed.ts';

/** Milliseconds for which a size is reported without counting again. */
const BELIEVED_MS = 300_000;
/** Pages that one listing reads before others have their turn, so that millions of objects delay nobody. */
const TURN_PAGES = 10;
const TURNS = { active: 2, queued: 1_000 };
const MOST_KNOWN = 10_000;

export interface AppSizesOptions {
  readonly client: Pick<S3Client, 'list'>;
  /** Bytes that an object or a folder costs in addition to its content. */
  readonly entryBytes: number;
  readonly log: Logger;
  readonly now?: () => number;
}

interface Known {
  readonly bytes: number;
  readonly at: number;
}

/**
 * Reports what is stored under a workload's prefix, by listing it. The caller waits for the first turn of a listing; if
 * that does not suffice, the listing continues, and the previous size is reported, or undefined.
 */
export function createAppSizes({ client, entryBytes, log, now = () => performance.now() }: AppSizesOptions) {
  const known = new Map<string, Known>();
  const running = new Set<string>();
  const turns = new ConcurrencyLimit(TURNS);

  async function list(prefix: string, afterFirstTurn: () => void): Promise<void> {
    const sums = listedUnder(client, prefix, entryBytes);
    let bytes = 0;
    for (;;) {
      const turn = await turns.run(async () => {
        for (let page = 0; page < TURN_PAGES; page += 1) {
          const { value, done } = await sums.next();
          if (done === true) return true;
          bytes = value;
        }
        return false;
      });
      // Too many listings are running, so this one was not started; the caller's next request starts it.
      if (turn === undefined) return;
      if (turn.value) break;
      afterFirstTurn();
    }
    if (known.size >= MOST_KNOWN) known.clear();
    known.set(prefix, { bytes, at: now() });
  }

  function firstTurn(prefix: string): Promise<void> {
    running.add(prefix);
    return new Promise((resolve) => {
      list(prefix, resolve)
        .catch((error: unknown) => log.debug({ err: error }, 'a workload could not be listed'))
        .finally(() => {
          running.delete(prefix);
          resolve();
        });
    });
  }

  return async (prefix: string): Promise<number | undefined> => {
    const last = known.get(prefix);
    if (last !== undefined && now() - last.at < BELIEVED_MS) return last.bytes;
    if (!running.has(prefix)) await firstTurn(prefix);
    return known.get(prefix)?.bytes;
  };
}

export type AppSizes = ReturnType<typeof createAppSizes>;
