import { setTimeout as wait } from 'node:timers/promises';
import type { Client, Reply } from '../../../brokers/db/testing/broker.ts';
import { sqlstate } from '../../../brokers/db/testing/postgres.ts';
import { type RowWriter, writeRows } from '../../../brokers/db/testing/writer.ts';

/** Callers who continuously create and drop databases, and tenants who write rows. */
export interface Load {
  readonly answered: Readonly<Record<'creates' | 'drops' | 'rows', number>>;
  /**
   * Times by `performance.now()` of answers of the broker to a create or drop, of its answers to a repeated create, which writes
   * nothing to the server, and of answers to the COMMIT of a row.
   */
  readonly at: Readonly<Record<'changes' | 'repeats' | 'rows', number[]>>;
  readonly refusals: number;
  /** Ends the load; returns answers that turned out untrue, and refusals that were wrong. */
  end(): Promise<{ readonly lost: string[]; readonly problems: string[] }>;
}

const CALLERS = 3;
const TENANTS = 3;
/** The number of databases that each caller has at once. */
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
  // `end` reports the error; the broker ends earlier only if something else has failed.
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
