import { setTimeout as wait } from 'node:timers/promises';
import { intoDatabase, query } from '../../../brokers/db/testing/postgres.ts';
import { createEntryCount } from '../../../brokers/objectstore/quota/charge.ts';
import { run } from '../../../e2e/cluster/run.ts';
import type { EmbeddedServer } from '../../postgres/server.ts';
import type { Ledger } from './ledger.ts';

const ADMIN = new URL('../../../brokers/objectstore/admin.ts', import.meta.url).pathname;
/** The quota that an object, and each folder, costs in addition to its bytes. */
const ENTRY_BYTES = 16_384;

/** Runs a command of the broker's administrator, as in its pod. */
export function administrator(environment: Readonly<Record<string, string>>, ...words: readonly string[]) {
  return run([process.execPath, ADMIN, ...words], { env: { PATH: process.env['PATH'], ...environment } });
}

/** The quota that a Capsule uses if no write is in progress or in doubt. */
function costOf(ledger: Ledger): number {
  const entries = createEntryCount();
  // The key prefix of its objects has this length.
  const place = 'c/capsule/a/assistant/';
  return ledger.keys().reduce((sum, key) => sum + ENTRY_BYTES * entries(`${place}${key}`), ledger.bytes);
}

interface Account {
  /** What the last listing found, plus later writes. */
  readonly counted: number;
  /** Everything that counts against the quota. */
  readonly used: number;
}

/** Reads the account of one Capsule from the registry. */
async function accountOf(registryUrl: string, capsule: string): Promise<Account> {
  const [row] = await query<{ counted: number; used: number }>(
    registryUrl,
    `SELECT counted::float8 AS counted, (counted + written
       - CASE WHEN credited_in = count_number THEN credited ELSE 0 END
       + coalesce((SELECT sum(bytes) FROM broker.object_block WHERE place = u.place), 0)
       + coalesce((SELECT sum(bytes) FROM broker.object_doubt WHERE place = u.place), 0)
       + coalesce((SELECT sum(bytes) FROM broker.object_upload WHERE place = u.place), 0))::float8 AS used
     FROM broker.object_usage u WHERE place = (SELECT place FROM broker.store WHERE capsule_id = $1)`,
    [capsule],
  );
  if (row === undefined) throw new Error(`the registry has no usage of ${capsule}`);
  return row;
}

/** Differences between a Capsule's answers and its account, before and after a recount. */
export async function auditAccount(
  server: EmbeddedServer,
  environment: Readonly<Record<string, string>>,
  capsule: string,
  ledger: Ledger,
): Promise<{ readonly problems: readonly string[]; readonly over: number }> {
  const registryUrl = intoDatabase(server.superuserUrl, 'space_objectstore');
  const cost = costOf(ledger);
  const problems: string[] = [];
  const before = await accountOf(registryUrl, capsule);
  if (before.used < cost) problems.push(`${capsule} is charged ${before.used} bytes, but has ${cost}`);
  // Pretends that an hour has passed: doubts end, and the next listing finds what was stored.
  await query(
    registryUrl,
    "UPDATE broker.object_doubt SET certain_at = certain_at - interval '3 hours' WHERE place = (SELECT place FROM broker.store WHERE capsule_id = $1)",
    [capsule],
  );
  let said = '';
  for (let i = 0; i < 5 && !said.includes('true'); i += 1) {
    if (i > 0) await wait(1_000);
    said = await administrator(environment, 'recount', capsule);
  }
  const after = await accountOf(registryUrl, capsule);
  if (after.counted !== cost)
    problems.push(`a recount of ${capsule} finds ${after.counted} bytes instead of ${cost}`);
  if (after.used < cost)
    problems.push(`after a recount, ${capsule} is charged ${after.used} bytes, but has ${cost}`);
  return { problems, over: after.used - cost };
}
