import { setTimeout as wait } from 'node:timers/promises';
import type { Client, Reply } from '../../../brokers/db/testing/broker.ts';
import { sqlstate } from '../../../brokers/db/testing/postgres.ts';
import { type RowWriter, writeRows } from '../../../brokers/db/testing/writer.ts';

/** Callers who create and drop databases, and tenants who write rows, all the time. */
export interface Load {
  readonly answered: Readonly<Record<'creates' | 'drops' | 'rows', number>>;
  /**
   * By `performance.now()`: when the broker answered a create or drop, when it answered a create that is repeated, which writes
   * nothing to the server, and when the COMMIT of a row was answered.
   */
  readonly at: Readonly<Record<'changes' | 'repeats' | 'rows', number[]>>;
  readonly refusals: number;
  /** Ends, and says what was answered and does not hold, and which refusals were not as they should be. */
  end(): Promise<{ readonly lost: string[]; readonly problems: string[] }>;
}

const CALLERS = 3;
const TENANTS = 3;
/** Databases that each caller keeps at a time. */
const KEPT = 4;
const CAPSULE = 'moving';

export async function startLoad(capsule: Client): Promise<Load> {
  const at: Load['at'] = { changes: [], repeats: [], rows: [] };
  const tally = { creates: 0, drops: 0, refusals: 0 };
  const problems: string[] = [];
  const kept = new Map<string, string>();
  const dropped = new Map<string, string>();
  let ended = false;

  const insist = async (ask: () => Promise<Reply>, answers = at.changes): Promise<Reply> => {
    for (;;) {
      const reply = await ask();
      if (reply.status === 200) {
        answers.push(performance.now());
        return reply;
      }
      tally.refusals += 1;
      if (reply.status !== 503 || !(Number(reply.headers.get('retry-after')) > 0))
        problems.push(
          `refused with ${reply.status}, Retry-After ${reply.headers.get('retry-after')}: ${reply.text}`,
        );
      await wait(50);
    }
  };
  const caller = async (name: string) => {
    const mine: string[] = [];
    for (let i = 1; !ended; i += 1) {
      const app = `${name}-x${i}`;
      const made = await insist(() => capsule.create(CAPSULE, app));
      tally.creates += 1;
      kept.set(app, made.json.database_url);
      mine.push(app);
      const oldest = mine.length > KEPT ? mine.shift() : undefined;
      if (oldest === undefined) continue;
      await insist(() => capsule.drop(CAPSULE, oldest));
      tally.drops += 1;
      dropped.set(oldest, kept.get(oldest) ?? '');
      kept.delete(oldest);
    }
  };
  const writers: RowWriter[] = [];
  for (let i = 1; i <= TENANTS; i += 1) {
    const { json } = await insist(() => capsule.create(CAPSULE, `tenant-x${i}`));
    const onRow = () => at.rows.push(performance.now());
    writers.push(await writeRows(json.database_url, { gapMs: 5, onRow }));
  }
  const repeating = async () => {
    while (!ended) {
      await insist(() => capsule.create(CAPSULE, 'tenant-x1'), at.repeats);
      await wait(50);
    }
  };
  const calling = Promise.all([repeating(), ...Array.from({ length: CALLERS }, (_, i) => caller(`c${i}`))]);
  // Told by `end`: the broker goes away before it only where something else has failed.
  calling.catch(() => undefined);
  return {
    get answered() {
      const { creates, drops } = tally;
      return { creates, drops, rows: writers.reduce((sum, writer) => sum + writer.acknowledged(), 0) };
    },
    at,
    get refusals() {
      return tally.refusals;
    },
    end: async () => {
      ended = true;
      await calling;
      const lost: string[] = [];
      for (const [i, writer] of writers.entries())
        lost.push(...(await writer.lost()).map((n) => `row ${n} of tenant ${i + 1}`));
      for (const [app, url] of kept) {
        const { json } = await insist(() => capsule.create(CAPSULE, app));
        const holds = json.created === false && json.database_url === url && (await sqlstate(url)) === 'ok';
        if (!holds) lost.push(`the create of ${app}`);
      }
      for (const [app, url] of dropped) if ((await sqlstate(url)) === 'ok') lost.push(`the drop of ${app}`);
      return { lost, problems };
    },
  };
}
