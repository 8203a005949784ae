import { connect, intoDatabase } from '../../brokers/db/testing/postgres.ts';
import type { DatabaseFixture } from './fixture.ts';
import { measure, type Part, p50, p99, rate, round, row, type Samples, unpaced } from './samples.ts';

/** After this many rounds the broker's connections have prepared all statements, as for the other figures. */
const WARM_UP = 10;
/** Databases are created in rounds of this size, since with hundreds of them autovacuum would always be in one. */
const ROUND = 50;

/**
 * Measures the time from a drop's request until the tenant's open session has ended; new logins are refused even earlier. One
 * caller alternates with the same in SQL; then eight callers run at once.
 */
export async function cut(fixture: DatabaseFixture, quick: boolean): Promise<Part> {
  const names = (what: string, count: number) => Array.from({ length: count }, (_, i) => `${what}${i}`);
  const hand = await cutByHand(fixture.superuserUrl);
  await dropEach(fixture, names('cold', WARM_UP), 1, hand.cut);
  hand.ms.length = 0;
  const drops: number[] = [];
  const cuts: number[] = [];
  for (let turn = 0; turn < (quick ? 1 : 4); turn++) {
    const alone = await dropEach(fixture, names(`alone${turn}-`, quick ? 12 : ROUND), 1, hand.cut);
    drops.push(...alone.whole.ms);
    cuts.push(...alone.cut.ms);
  }
  await hand.end();
  const [whole, alone, byHand] = [drops, cuts, hand.ms].map(unpaced) as [Samples, Samples, Samples];
  const together = await dropEach(fixture, names('together', quick ? 24 : 120), 8);
  return {
    rows: [
      row('drop, 1 caller', whole),
      row('drop, 8 callers', together.whole),
      row('access cut, 1 caller', alone),
      row('access cut by SQL, 1 connection', byHand),
      row('access cut, 8 callers', together.cut),
    ],
    figures: {
      cut_p50_ms: p50(alone),
      cut_p99_ms: p99(alone),
      cut_by_hand_p50_ms: p50(byHand),
      cut_by_hand_p99_ms: p99(byHand),
      cut_8_callers_p99_ms: p99(together.cut),
      drops_per_second: round(rate(together.whole)),
    },
  };
}

async function dropEach(
  fixture: DatabaseFixture,
  apps: readonly string[],
  callers: number,
  between = async (): Promise<void> => undefined,
) {
  const tenants: TenantSession[] = [];
  for (const app of apps) tenants.push(await tenantSession(await fixture.create(app)));
  // The first drop after many writes would include a checkpoint, which is not measured here.
  await fixture.settle();
  const cuts: number[] = [];
  const ms: number[] = [];
  const { seconds } = await measure(apps.length, callers, async (i) => {
    const begun = performance.now();
    await fixture.drop(apps[i] ?? '');
    ms.push(performance.now() - begun);
    cuts.push(((await tenants[i]?.ended) ?? Number.NaN) - begun);
    await between();
  });
  return { whole: { ms, seconds }, cut: unpaced(cuts) };
}

/**
 * Measures the least that PostgreSQL needs for a cut, with two round trips: the first refuses new logins, the second terminates
 * open sessions. The databases are created with SQL, and each is dropped afterwards, so that the disk is as busy as with the broker.
 */
async function cutByHand(superuserUrl: string) {
  const client = await connect(superuserUrl);
  const ms: number[] = [];
  let made = 0;
  return {
    ms,
    async cut() {
      made += 1;
      const name = `cut_${made}`;
      await client.query(`CREATE ROLE ${name} LOGIN PASSWORD 'x'`);
      await client.query(`CREATE DATABASE ${name} TEMPLATE template0`);
      const url = new URL(intoDatabase(superuserUrl, name));
      Object.assign(url, { username: name, password: 'x' });
      const tenant = await tenantSession(url.href);
      const begun = performance.now();
      await client.query(
        `BEGIN; ALTER ROLE ${name} NOLOGIN; ALTER DATABASE ${name} WITH ALLOW_CONNECTIONS false; COMMIT`,
      );
      await client.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1', [name]);
      ms.push((await tenant.ended) - begun);
      await client.query(`DROP DATABASE ${name} WITH (FORCE)`);
    },
    end: () => client.end(),
  };
}

interface TenantSession {
  /** Resolves to the time at which the server terminated the session. */
  readonly ended: Promise<number>;
}

/** Opens a session as a tenant in its database. */
async function tenantSession(url: string): Promise<TenantSession> {
  const client = await connect(url);
  const ended = new Promise<number>((resolve) => {
    for (const sign of ['error', 'end'] as const) client.once(sign, () => resolve(performance.now()));
  });
  return { ended };
}
