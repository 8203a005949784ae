import type { Round } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';
import type { Context } from '../context.ts';
import { type Door, decideQuota, type QuotaState, type Standing, standingOf } from '../core/quota.ts';
import { doorStatements, END_SESSIONS, END_STAYED, within } from '../isolation/statements.ts';
import { type BackupNow, readBackup } from './backup.ts';
import { allLimits, type LimitsRow, measure, observeActivity, type Sized, writeUsage } from './rows.ts';
import { type Shared, SharedCatalogues, stillCharged } from './shared.ts';

/** Databases that seem unchanged are measured this often, in milliseconds, since data may also shrink by itself. */
const ALL_MS = 600_000;
/** Smaller changes of a Capsule's size, in bytes, are not stored. */
const STEP_BYTES = 2 ** 20;

/** The bytes that a Capsule uses, and its part in shared catalogues. */
interface Found extends Pick<LimitsRow, 'used' | 'shared' | 'written' | 'writtenAt'> {
  /** Bytes that are now charged for dead rows. */
  readonly charged: number;
}

interface Known {
  readonly transactions: number;
  readonly bytes: number;
}

/**
 * Measures Capsules and shuts those that exceed their limit; a tenant can exceed it by what it writes between two
 * rounds. A database without an open transaction, and without one that ended since the last round, cannot have grown.
 */
export function sizing(context: Context, now = () => performance.now()): Round {
  let known = new Map<string, Known>();
  const catalogues = new SharedCatalogues();
  let measuredAll = Number.NEGATIVE_INFINITY;

  async function look(): Promise<void> {
    const all = now() - measuredAll >= ALL_MS;
    const mayHaveGrown = ({ name, busy, transactions }: Sized) =>
      all || busy || known.get(name)?.transactions !== transactions;
    const seen = await context.connections.session((session) =>
      observe(session, mayHaveGrown, catalogues, all),
    );
    showServer(context, seen);
    if (all) measuredAll = now();
    known = sizesOf(seen, known);
    context.metrics.quotaBytes.set(
      seen.limits.reduce((sum, row) => sum + (row.databaseBytes ?? context.databaseBytes), 0),
    );
    const standings = new Map<string, number>();
    for (const row of seen.limits) {
      const own = seen.databases.filter(({ capsule }) => capsule === row.capsule);
      const standing = await keepQuota(context, row, own, heldBy(row, own, known, seen), seen.now);
      standings.set(standing, (standings.get(standing) ?? 0) + 1);
    }
    context.metrics.quotas.reset();
    for (const [standing, count] of standings) context.metrics.quotas.labels(standing).set(count);
  }

  return { name: 'sizes', gapMs: 0, run: look };
}

/** What one round reads from the server. */
interface Seen extends ServerNow, BackupNow {
  readonly databases: readonly Sized[];
  /** Bytes of the databases that may have grown. */
  readonly sizes: ReadonlyMap<string, number>;
  readonly limits: readonly LimitsRow[];
  readonly shared: Shared;
}

async function observe(
  session: Session,
  mayHaveGrown: (database: Sized) => boolean,
  catalogues: SharedCatalogues,
  all: boolean,
): Promise<Seen> {
  await session.run('end stayed sessions', END_STAYED);
  const databases = await observeActivity(session);
  const names = databases.filter(mayHaveGrown).map(({ name }) => name);
  return {
    databases,
    sizes: names.length === 0 ? new Map<string, number>() : await measure(session, names),
    limits: await allLimits(session),
    shared: await catalogues.look(session, all),
    ...(await readServer(session)),
    ...(await readBackup(session)),
  };
}

function showServer({ metrics }: Context, seen: Seen): void {
  const { age, analysis, unarchived, move, killed, shared } = seen;
  metrics.oldestTransaction.set(age);
  metrics.oldestAnalysis.set(analysis);
  metrics.unarchived.set(Math.max(unarchived, seen.waiting));
  metrics.lastCopy.set(seen.lastCopy);
  metrics.logGap.set(seen.logGap);
  metrics.copyDamaged.set(seen.damaged);
  metrics.oldestMove.set(move);
  metrics.sessionsKilled.set(killed);
  metrics.sharedCatalogues.set(shared.bytes);
}

function sizesOf({ databases, sizes }: Seen, before: ReadonlyMap<string, Known>): Map<string, Known> {
  return new Map(
    databases.map(({ name, transactions }): [string, Known] => [
      name,
      { transactions, bytes: sizes.get(name) ?? before.get(name)?.bytes ?? 0 },
    ]),
  );
}

function heldBy(
  row: LimitsRow,
  own: readonly Sized[],
  known: ReadonlyMap<string, Known>,
  { shared: { dependencies, settings, growth, writers }, now }: Pick<Seen, 'shared' | 'now'>,
): Found {
  const sumOf = (bytes: (name: string) => number | undefined) =>
    own.reduce((sum, { name }) => sum + (bytes(name) ?? 0), 0);
  const wrote = own.filter(({ name }) => writers.has(name)).length;
  const charged = Math.ceil((growth / Math.max(1, writers.size)) * wrote);
  const written = stillCharged(row.written, row.writtenAt, now) + charged;
  // Settings that stay were charged when they were written. Without a database a Capsule has no roles, and so nothing
  // in shared catalogues.
  const shared =
    own.length === 0
      ? 0
      : sumOf((name) => dependencies.get(name)) +
        Math.max(
          written,
          sumOf((name) => settings.get(name)),
        );
  const used = shared + sumOf((name) => known.get(name)?.bytes);
  return { used, shared, written: own.length === 0 ? 0 : written, writtenAt: now, charged };
}

/** Decides about one Capsule, and opens or shuts its databases if they are not in that state yet. */
async function keepQuota(
  context: Context,
  row: LimitsRow,
  own: readonly Sized[],
  found: Found,
  now: number,
): Promise<Standing> {
  const limit = row.databaseBytes ?? context.databaseBytes;
  const state = decideQuota(row, found.used, limit, now);
  if (isNews(row, found, state) || !stands(context, own, row, state))
    await settle(context, row, found, state, own).catch((error: unknown) =>
      context.log.warn({ capsule: row.capsule, err: error }, 'a quota is not enforced yet'),
    );
  return standingOf(state.door, found.used, limit);
}

interface ServerNow {
  readonly now: number;
  readonly age: number;
  readonly killed: number;
  /** Seconds for which the oldest analysis of autovacuum has run. */
  readonly analysis: number;
  /** Seconds since the last file was archived, while archiving fails; 0 if archiving is off. */
  readonly unarchived: number;
  /**
   * Seconds since the last step of the Capsule's move from this server that has made no progress for longest; 0 without
   * one.
   */
  readonly move: number;
}

async function readServer(session: Session): Promise<ServerNow> {
  const [row] = await session.read<Record<keyof ServerNow, number>>(
    'read server',
    `SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now,
       (SELECT sum(pg_stat_get_db_sessions_killed(oid)) FROM pg_database)::float8 AS killed,
       (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - query_start)), 0)::float8 FROM pg_stat_activity
        WHERE backend_type = 'autovacuum worker' AND (query LIKE 'autovacuum: BRIN summarize %'
          OR pid IN (SELECT pid FROM pg_stat_progress_analyze))) AS analysis,
       (SELECT CASE WHEN last_failed_time > coalesce(last_archived_time, '-infinity')
          THEN extract(epoch FROM clock_timestamp() - coalesce(last_archived_time, stats_reset, pg_postmaster_start_time())) ELSE 0 END
        FROM pg_stat_archiver)::float8 AS unarchived,
       (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - changed_at)), 0) FROM broker.departure
        WHERE state <> 'gone')::float8 AS move,
       (SELECT max(age(datfrozenxid)) FROM pg_database WHERE datconnlimit <> -2)::float8 AS age`,
  );
  if (row === undefined) throw new Error('a clock without a time');
  return row;
}

function isNews(row: LimitsRow, { used, charged }: Found, state: QuotaState): boolean {
  const step = Math.max(STEP_BYTES, row.used / 100);
  return (
    state.door !== row.door ||
    state.tries !== row.tries ||
    state.ceiling !== row.ceiling ||
    charged > 0 ||
    Math.abs(used - row.used) >= step ||
    (used === 0) !== (row.used === 0)
  );
}

/**
 * Whether the databases are in the required state. An administrator may have opened them, or a change may have been
 * interrupted.
 */
function stands(context: Context, own: readonly Sized[], row: LimitsRow, { door }: QuotaState): boolean {
  if (door === 'open') return true;
  const limit = limitOf(context, row, door);
  return own.every(
    (one) => one.held || (one.open === (door === 'tidying') && (!one.open || one.limit === limit)),
  );
}

const limitOf = (context: Context, row: LimitsRow, door: Door) =>
  door === 'tidying' ? 1 : (row.connections ?? context.connectionLimit);

/** Stores the result and opens or shuts the databases, in one transaction, whatever tenants do meanwhile. */
async function settle(
  context: Context,
  row: LimitsRow,
  found: Found,
  state: QuotaState,
  own: readonly Sized[],
): Promise<void> {
  const names = own.filter(({ held }) => !held).map(({ name }) => name);
  const moves = state.door !== row.door || !stands(context, own, row, state);
  const tightened = moves && state.door !== 'open';
  const done = await context.connections.transaction(
    async (session) => {
      const first = await writeUsage(session, row, found, state);
      if (!first || !moves) return first;
      if (tightened) await session.run('end sessions', END_SESSIONS, [names]);
      const open = state.door === 'open' || state.door === 'tidying';
      const limit = limitOf(context, row, state.door);
      const statements = names.map((name) => doorStatements(name, open, limit));
      if (statements.length > 0) await session.run('move doors', within('cut', statements));
      return true;
    },
    async (session, first) => {
      if (first && tightened) await session.run('end sessions', END_SESSIONS, [names]).catch(() => undefined);
    },
  );
  if (!done || state.door === row.door) return;
  const about = { capsule: row.capsule, door: state.door, used_bytes: found.used };
  if (state.door === 'open') context.log.info(about, 'a Capsule is within its quota again');
  else context.log.warn(about, 'a Capsule is over its quota');
}
