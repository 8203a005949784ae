import { ServiceError } from '@space/broker-kit';
import { isRace, type Session, SQLSTATE, StepError } from '@space/broker-kit/postgres';
import { audit, type Undecided } from '@space/broker-kit/principals';
import {
  type DerivationKey,
  databaseUrl,
  type Edition,
  passwordOf,
  scramVerifier,
} from '../core/credentials.ts';
import { type DatabaseRow, decideCreate } from '../core/decide.ts';
import { databaseName, type Workload } from '../core/names.ts';
import { requireRoom } from '../limits/set.ts';
import {
  advanceDatabase,
  insertDatabase,
  lockDatabase,
  markEvicted,
  type Registration,
} from '../registry/rows.ts';
import { claimSpare, makeSpare, takeSpare } from '../spares/pool.ts';
import { observe } from '../walls/observe.ts';
import {
  openingStatements,
  passwordStatement,
  reopeningStatements,
  shuttingStatement,
} from '../walls/statements.ts';
import type { Context } from './context.ts';
import { seize } from './cut.ts';

/** What a create answers with. */
export interface Ensured {
  readonly name: string;
  readonly url: string;
  readonly created: boolean;
  /** Everybody was put out, and the database is shut until `reopen`. */
  readonly evicting: boolean;
}

/** The pool was empty: the transaction must be begun anew with a spare of its own. */
class NoSpare extends Error {}

/** Another transaction registered the workload first: begun anew, this one finds its row. */
class Overtaken extends Error {}

/** What the attempts before this one have learned. */
interface Attempt {
  /** A spare of its own, where the pool was empty or what is in it is held. */
  readonly reserved?: string | undefined;
  readonly passedOver: readonly string[];
  /** The workload's role changes all the time: take its database first. */
  readonly contested: boolean;
  /** Tells which spare it works with. */
  readonly take: (spare: string) => void;
}

const MAX_ATTEMPTS = 6;
/** Of spares that are held; then one is made, which nobody has seen. */
const MAX_PASSED_OVER = 2;

/**
 * Runs a transaction that may need a spare. Only when the pool is empty, or held, does it make one, outside the
 * transaction; a crash then leaves a closed spare, which the upkeep adopts.
 */
export async function withSpare<T>(
  context: Context,
  act: (session: Session, attempt: Attempt) => Promise<T>,
): Promise<T> {
  let taken = '';
  const take = (spare: string) => {
    taken = spare;
  };
  let next: Attempt = { passedOver: [], contested: false, take };
  for (let attempt = 1; ; attempt += 1) {
    const now = next;
    try {
      return await context.connections.transaction((session, again) =>
        act(session, { ...now, contested: now.contested || again > 1 }),
      );
    } catch (error) {
      if (attempt >= MAX_ATTEMPTS) throw error;
      if (error instanceof Overtaken) continue;
      if (!now.contested && isContested(error)) {
        next = { ...now, contested: true };
        continue;
      }
      const held = isHeld(error) ? taken : undefined;
      const passedOver = held === undefined ? now.passedOver : [...now.passedOver, held];
      next = { ...now, reserved: undefined, passedOver };
      if (held !== undefined && held !== now.reserved && passedOver.length <= MAX_PASSED_OVER) continue;
      const stolen = error instanceof StepError && error.code === SQLSTATE.undefinedDatabase;
      if (held === undefined && !(error instanceof NoSpare) && !stolen) throw error;
      context.nudge();
      context.failpoint('cold:before-clone');
      next = { ...next, reserved: await cloneWithRetries(context) };
      context.failpoint('cold:after-clone');
    }
  }
}

/** Does somebody hold the spare that was taken? Another one will do. */
function isHeld(error: unknown): boolean {
  return (
    error instanceof StepError && error.step === 'open database' && error.code === SQLSTATE.lockNotAvailable
  );
}

/** Did the role's row not come free, or change under every attempt? */
function isContested(error: unknown): boolean {
  return (
    error instanceof StepError &&
    error.step === 'assert password' &&
    (error.code === SQLSTATE.lockNotAvailable || error.code === SQLSTATE.internal)
  );
}

async function cloneWithRetries({ cloning, connections, spares }: Context): Promise<string> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const turn = await cloning.run(() => connections.session((session) => makeSpare(session, spares)));
      if (turn === undefined) throw new ServiceError('unavailable', 'too many clones', { retryAfter: 2 });
      return turn.value;
    } catch (error) {
      if (attempt >= 3 || !isRace(error)) throw error;
    }
  }
}

/** What a create works on, in the caller's transaction, which holds the Capsule's row and the workload's. */
export interface Target {
  readonly workload: Workload;
  readonly row: DatabaseRow | undefined;
  /** Of the Capsule. */
  readonly life: number;
  readonly attempt: Attempt;
  readonly entry: Undecided;
}

/**
 * Makes the workload's database, or finds it, and writes the audit. The same workload always gets the same URL, until
 * an administrator asks for a rotation.
 */
export async function ensureDatabase(context: Context, session: Session, target: Target): Promise<Ensured> {
  const { workload, row, life } = target;
  const decision = decideCreate(row);
  if (decision.kind === 'conflict')
    throw new ServiceError('conflict', 'the database is being dropped, or closed');
  if (decision.kind === 'create') return create(context, session, target, decision.generation);
  if (row === undefined) throw new Error('nothing to reassert');
  if (decision.kind !== 'rotate')
    return reassert(context, session, target, row, row, keyOf(context, row), 'existing');
  const edition: Edition = { generation: decision.generation, epoch: context.newEpoch() };
  const key = context.keyring().current;
  await advanceDatabase(session, workload, row, { ...edition, life, name: row.name, keyId: key.id });
  return reassert(context, session, target, row, edition, key, 'rotated');
}

async function create(
  context: Context,
  session: Session,
  { workload, row: tombstone, life, attempt, entry }: Target,
  generation: number,
): Promise<Ensured> {
  const key = context.keyring().current;
  const edition: Edition = { generation, epoch: context.newEpoch() };
  const name = databaseName(context.nameKey, context.space, workload, edition.epoch);
  const password = passwordOf(key, context.space, workload, edition);
  const registration: Registration = { ...edition, life, name, keyId: key.id };
  const [connections, registered, spare, verifier] = await Promise.all([
    requireRoom(context, session, workload),
    tombstone === undefined
      ? insertDatabase(session, workload, registration)
      : advanceDatabase(session, workload, tombstone, registration).then(() => true),
    attempt.reserved === undefined
      ? takeSpare(session, context.spares, attempt.passedOver)
      : claimSpare(session, attempt.reserved),
    scramVerifier(key, password),
  ]);
  if (!registered) throw new Overtaken();
  if (spare === undefined) throw new NoSpare();
  attempt.take(spare);
  context.failpoint('create:after-spare');
  await Promise.all([
    session.run(
      'open database',
      openingStatements(spare, name, verifier, connections, attempt.reserved ? 'insist' : 'give'),
    ),
    audit(session, { ...entry, outcome: 'created' }),
  ]);
  context.failpoint('create:after-open');
  context.nudge();
  return { name, url: databaseUrl(name, password, context.issued), created: true, evicting: false };
}

async function reassert(
  context: Context,
  session: Session,
  { workload, attempt, entry }: Target,
  { name, evicting }: DatabaseRow,
  edition: Edition,
  key: DerivationKey,
  outcome: 'existing' | 'rotated',
): Promise<Ensured> {
  const password = passwordOf(key, context.space, workload, edition);
  const [found, verifier] = await Promise.all([observe(session, name), scramVerifier(key, password)]);
  if (found.database !== 'valid' || !found.role) {
    throw new ServiceError(
      'unavailable',
      `database ${found.database}, role ${found.role ? 'present' : 'absent'}`,
    );
  }
  if (attempt.contested || evicting) await seize(context, session, [{ name, ...found }]);
  await Promise.all([
    session.run('assert password', passwordStatement(name, verifier, attempt.contested ? 'insist' : 'cut')),
    // Who proved the old password and waits at the door would come in when the transaction ends.
    evicting && session.run('shut database', shuttingStatement(name)),
    audit(session, { ...entry, outcome: evicting ? `${outcome}, sessions ended` : outcome }),
  ]);
  return { name, url: databaseUrl(name, password, context.issued), created: false, evicting };
}

/** The end of an eviction: opens the database again to whoever has the new password. */
export async function reopen(context: Context, workload: Workload, name: string): Promise<void> {
  await context.connections.transaction(async (session) => {
    const row = await lockDatabase(session, workload);
    if (row?.state !== 'ready' || row.name !== name || !row.evicting) return;
    await markEvicted(session, workload);
    if (!row.closed) await session.run('reopen database', reopeningStatements(name));
  });
}

function keyOf(context: Context, row: DatabaseRow): DerivationKey {
  const key = context.keyring().byId(row.keyId);
  if (key === undefined)
    throw new ServiceError('unavailable', 'the derivation key of this database is not in the ring');
  return key;
}
