import { ServiceError } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';
import { audit, type Undecided } from '@space/broker-kit/principals';
import type { Context } from '../context.ts';
import {
  type DerivationKey,
  databaseUrl,
  type Edition,
  passwordOf,
  scramVerifier,
} from '../core/credentials.ts';
import { type DatabaseRow, decideCreate } from '../core/decide.ts';
import { databaseName, type Workload } from '../core/names.ts';
import { observe } from '../isolation/observe.ts';
import {
  END_SESSIONS,
  openingStatements,
  passwordStatement,
  reopeningStatements,
  shuttingStatement,
} from '../isolation/statements.ts';
import { requireCapacity } from '../limits/capacity.ts';
import { readAdmits } from '../limits/rows.ts';
import {
  advanceDatabase,
  insertDatabase,
  lockDatabase,
  markEvicted,
  type Registration,
} from '../registry/rows.ts';
import { hasLeft } from '../servers/placements.ts';
import { moving } from '../servers/routes.ts';
import { spareFor } from '../spares/pool.ts';
import { type Attempt, NoSpare, Overtaken, patienceOf } from './attempts.ts';
import { seize } from './cut.ts';

/** The result of a create. */
export interface Ensured {
  readonly name: string;
  readonly url: string;
  readonly created: boolean;
  /** All sessions were ended, and the database stays shut until `reopen`. */
  readonly evicting: boolean;
}

/** The workload of a create, in a transaction that has locked the rows of Capsule and workload. */
export interface Target {
  readonly workload: Workload;
  readonly row: DatabaseRow | undefined;
  /** The incarnation of the Capsule. */
  readonly incarnation: number;
  readonly attempt: Attempt;
  readonly entry: Undecided;
}

/**
 * Creates the workload's database or finds it, and writes the audit entry. The same workload always gets the same URL,
 * until an administrator requests a rotation.
 */
export async function ensureDatabase(context: Context, session: Session, target: Target): Promise<Ensured> {
  const { workload, row, incarnation } = target;
  const decision = decideCreate(row);
  if (decision.kind === 'conflict')
    throw new ServiceError('conflict', 'the database is being dropped, or closed');
  if (decision.kind === 'create') return create(context, session, target, decision.generation);
  if (row === undefined) throw new Error('no row to issue the URL of');
  if (decision.kind !== 'rotate')
    return reissue(context, session, target, {
      row,
      edition: row,
      key: keyOf(context, row),
      outcome: 'existing',
    });
  const edition: Edition = { generation: decision.generation, epoch: context.newEpoch() };
  const key = context.derivationKeys().current;
  await advanceDatabase(session, workload, row, { ...edition, incarnation, name: row.name, keyId: key.id });
  return reissue(context, session, target, { row, edition, key, outcome: 'rotated' });
}

async function create(
  context: Context,
  session: Session,
  { workload, row: tombstone, incarnation, attempt, entry }: Target,
  generation: number,
): Promise<Ensured> {
  const key = context.derivationKeys().current;
  const edition: Edition = { generation, epoch: context.newEpoch() };
  const name = databaseName(context.nameKey, context.space, workload, edition.epoch);
  const password = passwordOf(key, context.space, workload, edition);
  const registration: Registration = { ...edition, incarnation, name, keyId: key.id };
  const [connectionLimit, registered, spare, verifier] = await Promise.all([
    requireCapacity(context, session, workload),
    tombstone === undefined
      ? insertDatabase(session, workload, registration)
      : advanceDatabase(session, workload, tombstone, registration).then(() => true),
    spareFor(session, context.spares, attempt),
    scramVerifier(key, password),
  ]);
  if (!registered) throw new Overtaken();
  if (spare === undefined) throw new NoSpare();
  attempt.take(spare);
  context.failpoint('create:after-spare');
  await Promise.all([
    session.run(
      'open database',
      openingStatements({ spare, name, verifier, connectionLimit, patience: patienceOf(attempt) }),
    ),
    audit(session, { ...entry, outcome: 'created' }),
  ]);
  context.failpoint('create:after-open');
  context.nudge();
  return { name, url: databaseUrl(name, password, context.issued), created: true, evicting: false };
}

/** The password to issue again, and the reason. */
interface Reissue {
  readonly row: DatabaseRow;
  readonly edition: Edition;
  readonly key: DerivationKey;
  readonly outcome: 'existing' | 'rotated';
}

/**
 * Sets the role's password on the server again, which reverts changes by the tenant, and returns the URL. If the password
 * is the one that was issued before, the commit does not wait for the disk: a crash could only bring back the tenant's own
 * change, until the next create. An eviction ends with `reopen`, whose commit waits.
 */
async function reissue(
  context: Context,
  session: Session,
  { workload, attempt, entry }: Target,
  { row: { name, evicting }, edition, key, outcome }: Reissue,
): Promise<Ensured> {
  const password = passwordOf(key, context.space, workload, edition);
  const [found, verifier] = await Promise.all([observe(session, name), scramVerifier(key, password)]);
  if (found.database !== 'valid' || !found.role) {
    throw new ServiceError(
      'unavailable',
      `database ${found.database}, role ${found.role ? 'present' : 'absent'}`,
    );
  }
  // If a session cannot be ended, nobody else must come in with the old password until it is; `reopen` waits for that.
  if (attempt.occupied) await session.run('end sessions', END_SESSIONS, [[name]]);
  else if (attempt.contested || evicting) await seize(context, session, [{ name, ...found }]);
  await Promise.all([
    outcome === 'existing' && session.run('commit without waiting', 'SET LOCAL synchronous_commit = off'),
    session.run('assert password', passwordStatement(name, verifier, attempt.contested ? 'insist' : 'cut')),
    // A session that proved the old password and waits for the lock would otherwise be admitted when the transaction
    // ends.
    evicting && session.run('shut database', shuttingStatement(name)),
    audit(session, { ...entry, outcome: evicting ? `${outcome}, sessions ended` : outcome }),
  ]);
  return { name, url: databaseUrl(name, password, context.issued), created: false, evicting };
}

/** Ends an eviction: opens the database again for the new password. */
export async function reopen(context: Context, workload: Workload, name: string): Promise<void> {
  await context.connections.transaction(async (session) => {
    const row = await lockDatabase(session, workload);
    // A move that began since has the database, and whoever came in now would write what is not copied.
    if (await hasLeft(session, workload.capsule)) throw moving();
    if (row?.state !== 'ready' || row.name !== name || !row.evicting) return;
    await markEvicted(session, workload);
    if (row.closed) return;
    // A session with the old password that waits for the database's lock must find the database closed.
    await seize(context, session, [{ name, ...(await observe(session, name)) }]);
    // A session that could not be ended before may have changed it.
    const verifier = await verifierOf(context, workload, row);
    await session.run('assert password', passwordStatement(name, verifier, 'insist'));
    const admits = await readAdmits(session, workload.capsule, context.connectionLimit);
    await session.run('reopen database', reopeningStatements(name, admits));
  });
}

/** The verifier of the workload's present password. */
export function verifierOf(context: Context, workload: Workload, row: DatabaseRow): Promise<string> {
  const key = keyOf(context, row);
  return scramVerifier(key, passwordOf(key, context.space, workload, row));
}

function keyOf(context: Context, row: DatabaseRow): DerivationKey {
  const key = context.derivationKeys().byId(row.keyId);
  if (key === undefined)
    throw new ServiceError('unavailable', 'the derivation key of this database is not in the ring');
  return key;
}
