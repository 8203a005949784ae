import type { Connections, Session } from '@space/broker-kit/postgres';
import { checkedName } from '../core/names.ts';
import type { SpareNames } from './names.ts';

/**
 * Whether a spare is as it was cloned: valid, closed, and without grants, so that nobody but its later tenant can have
 * entered it.
 */
const SEALED = 'd.datconnlimit <> -2 AND NOT d.datallowconn AND d.datacl IS NULL';

/** Which spare a transaction may have: one that was cloned for it, or one of the pool that it has not passed over. */
export interface SpareChoice {
  readonly reserved?: string | undefined;
  readonly passedOver: readonly string[];
}

/** Takes a spare for the caller's transaction; a rollback makes it available again. Undefined if the pool has none. */
export function spareFor(
  session: Session,
  names: SpareNames,
  { reserved, passedOver }: SpareChoice,
): Promise<string | undefined> {
  return reserved === undefined ? takeSpare(session, names, passedOver) : claimSpare(session, reserved);
}

/** Takes a spare of the pool, except the named ones. */
async function takeSpare(
  session: Session,
  names: SpareNames,
  passedOver: readonly string[],
): Promise<string | undefined> {
  const [row] = await session.run<{ name: string }>(
    'take spare',
    `DELETE FROM broker.spare WHERE name = (
       SELECT s.name FROM broker.spare s JOIN pg_database d ON d.datname = s.name
       WHERE starts_with(s.name, $1) AND s.name <> ALL ($2) AND ${SEALED}
       LIMIT 1 FOR UPDATE OF s SKIP LOCKED)
     RETURNING name`,
    [names.usable, passedOver],
  );
  return row?.name;
}

/** Takes a spare that the caller has cloned and that the upkeep may have adopted since. */
async function claimSpare(session: Session, name: string): Promise<string> {
  await session.run('claim spare', 'DELETE FROM broker.spare WHERE name = $1', [name]);
  return name;
}

/** Clones the template. The clone is closed, and unused until it is added to the pool or renamed. */
export async function makeSpare(session: Session, names: SpareNames): Promise<string> {
  const name = names.next();
  await session.run(
    'create spare',
    `CREATE DATABASE ${checkedName(name)} TEMPLATE ${checkedName(names.template)} ALLOW_CONNECTIONS false`,
  );
  return name;
}

/**
 * Adds every usable spare to the pool, including those of a broker that was killed after the clone, and removes names
 * without a database. One statement has one snapshot, so that it never sees half of a renaming.
 */
export async function adoptSpares(session: Session, names: SpareNames): Promise<number> {
  const rows = await session.run(
    'adopt spares',
    `INSERT INTO broker.spare (name)
     SELECT d.datname FROM pg_database d
     WHERE starts_with(d.datname, $1) AND ${SEALED} AND pg_get_userbyid(d.datdba) = current_user
     ON CONFLICT DO NOTHING RETURNING 1`,
    [names.usable],
  );
  await session.run(
    'forget lost spares',
    `DELETE FROM broker.spare s
     WHERE NOT EXISTS (
       SELECT FROM pg_database d WHERE d.datname = s.name AND ${SEALED})
       OR NOT starts_with(s.name, $1)`,
    [names.usable],
  );
  return rows.length;
}

/**
 * Spares and templates that can never be issued: those of a lower version, those that an interrupted drop has left
 * invalid, and those that somebody has opened or granted, who may have left something in them. Higher versions belong
 * to a newer replica.
 */
export async function unusableSpares(session: Session, names: SpareNames): Promise<string[]> {
  const rows = await session.read<{ name: string }>(
    'find unusable spares',
    `SELECT name FROM (
       SELECT datname::text AS name, NOT (${SEALED}) AS spoilt,
         substring(datname FROM '_(?:spare|template)_([0-9]{1,9})(?:_|$)')::int AS version,
         starts_with(datname, $1) AS spare
       FROM pg_database d
       WHERE pg_get_userbyid(datdba) = current_user AND (starts_with(datname, $1) OR starts_with(datname, $2))) ours
     WHERE version < $3 OR (version = $3 AND spare AND spoilt)`,
    [names.family, names.templates, names.version],
  );
  return rows.map(({ name }) => name);
}

export async function dropSpare(session: Session, name: string): Promise<void> {
  await session.run('drop unusable spare', `DROP DATABASE IF EXISTS ${checkedName(name)} WITH (FORCE)`);
}

export async function countSpares(session: Session, names: SpareNames): Promise<number> {
  const [row] = await session.read<{ count: number }>(
    'count spares',
    'SELECT count(*)::int AS count FROM broker.spare WHERE starts_with(name, $1)',
    [names.usable],
  );
  return row?.count ?? 0;
}

/** Clones one spare and adds it to the pool. */
export async function addSpare(connections: Connections, names: SpareNames): Promise<void> {
  await connections.session(async (session) => {
    const name = await makeSpare(session, names);
    await session.run('add spare', 'INSERT INTO broker.spare (name) VALUES ($1) ON CONFLICT DO NOTHING', [
      name,
    ]);
  });
}
