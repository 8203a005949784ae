import { type Secret, ServiceError } from '@space/broker-kit';
import { isRace, type Session, StepError } from '@space/broker-kit/postgres';
import { type DerivationKey, databaseUrl, passwordOf, scramVerifier } from '../core/credentials.ts';
import { type DatabaseRow, decideCreate } from '../core/decide.ts';
import { databaseName, type Workload } from '../core/names.ts';
import { advanceDatabase, insertDatabase, lockDatabase, type Registration } from '../registry/rows.ts';
import { makeSpare, takeSpare } from '../spares/pool.ts';
import { observe } from '../walls/observe.ts';
import { openingStatements, passwordStatement } from '../walls/statements.ts';
import type { Context } from './context.ts';

/** What a create answers with; `outcome` is for the audit. */
export interface Ensured {
  readonly url: string;
  readonly created: boolean;
  readonly outcome: 'created' | 'existing' | 'rotated';
}

/** The pool was empty: the transaction must be begun anew with a spare of its own. */
class NoSpare extends Error {}

/**
 * Runs a transaction that may need a spare. Only when the pool is empty does it make one, outside the transaction;
 * a crash then leaves a closed spare, which the upkeep adopts.
 */
export async function withSpare<T>(
  context: Context,
  act: (session: Session, reserved: string | undefined) => Promise<T>,
): Promise<T> {
  let reserved: string | undefined;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await context.connections.transaction((session) => act(session, reserved));
    } catch (error) {
      const stolen = error instanceof StepError && error.code === '3D000';
      if (!(error instanceof NoSpare || stolen) || attempt > 3) throw error;
      context.nudge();
      context.failpoint('cold:before-clone');
      reserved = await cloneWithRetries(context);
      context.failpoint('cold:after-clone');
    }
  }
}

async function cloneWithRetries(context: Context): Promise<string> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await context.connections.session((session) => makeSpare(session, context.spares));
    } catch (error) {
      if (attempt >= 3 || !isRace(error)) throw error;
    }
  }
}

/**
 * Makes the workload's database, or finds it, in the caller's transaction, which holds the Capsule's row. The same
 * workload always gets the same URL, until an administrator asks for a rotation.
 */
export async function ensureDatabase(
  context: Context,
  session: Session,
  workload: Workload,
  life: number,
  reserved: string | undefined,
): Promise<Ensured> {
  for (;;) {
    const row = await lockDatabase(session, workload);
    const decision = decideCreate(row);
    if (decision.kind === 'conflict')
      throw new ServiceError('conflict', 'the database is being dropped, or closed');
    if (decision.kind === 'create') {
      const made = await create(
        context,
        session,
        workload,
        row,
        { life, generation: decision.generation },
        reserved,
      );
      if (made !== undefined) return made;
      continue; // Another transaction registered it first; now its row is there to be locked.
    }
    if (row === undefined) throw new Error('nothing to reassert');
    const key = decision.kind === 'rotate' ? context.keyring().current : keyOf(context, row);
    const generation = decision.kind === 'rotate' ? decision.generation : row.generation;
    if (decision.kind === 'rotate') {
      await advanceDatabase(session, workload, row, { life, name: row.name, generation, keyId: key.id });
    }
    return await reassert(context, session, workload, row.name, generation, key, decision.kind);
  }
}

async function create(
  context: Context,
  session: Session,
  workload: Workload,
  tombstone: DatabaseRow | undefined,
  { life, generation }: { life: number; generation: number },
  reserved: string | undefined,
): Promise<Ensured | undefined> {
  const key = context.keyring().current;
  const name = databaseName(context.nameKey, context.space, workload, generation);
  const registration: Registration = { life, name, generation, keyId: key.id };
  if (tombstone !== undefined) await advanceDatabase(session, workload, tombstone, registration);
  else if (!(await insertDatabase(session, workload, registration))) return undefined;
  context.failpoint('create:after-row');

  const spare = reserved ?? (await takeSpare(session, context.spares));
  if (spare === undefined) throw new NoSpare();
  if (reserved !== undefined) {
    await session.run('claim spare', 'DELETE FROM broker.spare WHERE name = $1', [reserved]);
  }
  context.failpoint('create:after-spare');
  const password = passwordOf(key, context.space, workload, generation);
  const verifier = await scramVerifier(key, password);
  await session.run('open database', openingStatements(spare, name, verifier, context.connectionLimit));
  context.failpoint('create:after-open');
  context.nudge();
  return { url: databaseUrl(name, password, context.issued), created: true, outcome: 'created' };
}

async function reassert(
  context: Context,
  session: Session,
  workload: Workload,
  name: string,
  generation: number,
  key: DerivationKey,
  kind: 'rotate' | 'existing',
): Promise<Ensured> {
  const found = await observe(session, name);
  if (found.database !== 'valid' || !found.role) {
    throw new ServiceError(
      'unavailable',
      `database ${found.database}, role ${found.role ? 'present' : 'absent'}`,
    );
  }
  const password: Secret<string> = passwordOf(key, context.space, workload, generation);
  await session.run('assert password', passwordStatement(name, await scramVerifier(key, password)));
  const outcome = kind === 'rotate' ? 'rotated' : 'existing';
  return { url: databaseUrl(name, password, context.issued), created: false, outcome };
}

function keyOf(context: Context, row: DatabaseRow): DerivationKey {
  const key = context.keyring().byId(row.keyId);
  if (key === undefined)
    throw new ServiceError('unavailable', 'the derivation key of this database is not in the ring');
  return key;
}
