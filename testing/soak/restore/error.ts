/** A mistake: rows and an object of a tenant are deleted, while another tenant continues to write. */
import { setTimeout as wait } from 'node:timers/promises';
import { connect, query } from '../../../brokers/db/testing/postgres.ts';
import type { S3Client } from '../../../brokers/objectstore/upstream/types.ts';
import { eventually } from '../../eventually.ts';
import type { BackedUpServer } from './server.ts';
import { keyOf, type Tenant } from './tenants.ts';

const TICK_MS = 200;
const TICKS = 50;

function ends(tenants: readonly Tenant[]): readonly [Tenant, Tenant] {
  const [first, last] = [tenants[0], tenants.at(-1)];
  if (first === undefined || last === undefined || first === last) throw new Error('two tenants are needed');
  return [first, last];
}

/** Returns the moment before the mistake; later changes are archived, too. */
export async function makeError(
  server: BackedUpServer,
  bucket: S3Client,
  tenants: readonly Tenant[],
): Promise<Date> {
  const [erring, ticking] = ends(tenants);
  const client = await connect(ticking.url);
  const tick = async () => {
    await client.query('INSERT INTO tick DEFAULT VALUES');
    await wait(TICK_MS);
  };
  try {
    await client.query('CREATE TABLE tick (at timestamptz NOT NULL DEFAULT clock_timestamp())');
    for (let i = 0; i < TICKS; i += 1) await tick();
    const [{ moment } = { moment: new Date(Number.NaN) }] = (
      await client.query<{ moment: Date }>('SELECT clock_timestamp() AS moment')
    ).rows;
    await wait(TICK_MS);
    await query(erring.url, 'DELETE FROM entry');
    await bucket.delete(keyOf(erring, 0));
    for (let i = 0; i < TICKS; i += 1) await tick();
    await untilArchived(server, moment);
    return moment;
  } finally {
    await client.end();
  }
}

async function untilArchived(server: BackedUpServer, moment: Date): Promise<void> {
  const asked = (text: string) =>
    server.inside('psql', '-XAtqU', 'postgres', '-h', '/run/postgresql', '-c', text, 'postgres');
  await asked('SELECT pg_switch_wal()');
  const text = `SELECT last_archived_time > '${moment.toISOString()}' FROM pg_stat_archiver`;
  await eventually(async () => (await asked(text)).trim() === 't', { what: 'the log is archived' });
}

/** The time of the other tenant's newest row, in milliseconds since 1970. */
export async function newestTick(tenants: readonly Tenant[]): Promise<number> {
  const [row] = await query<{ at: Date }>(ends(tenants)[1].url, 'SELECT max(at) AS at FROM tick');
  return row?.at.getTime() ?? 0;
}
