import { ServiceError } from '@space/broker-kit';
import { isRace, type Session, SQLSTATE, StepError } from '@space/broker-kit/postgres';
import { audit, type Undecided } from '@space/broker-kit/principals';
import { type DerivationKey, databaseUrl, passwordOf, scramVerifier } from '../core/credentials.ts';
import { type DatabaseRow, decideCreate } from '../core/decide.ts';
import { databaseName, type Workload } from '../core/names.ts';
import { advanceDatabase, insertDatabase, type Registration } from '../registry/rows.ts';
import { claimSpare, makeSpare, takeSpare } from '../spares/pool.ts';
import { observe } from '../walls/observe.ts';
import { openingStatements, passwordStatement } from '../walls/statements.ts';
import type { Context } from './context.ts';
import { seize } from './cut.ts';

/** What a create answers with. */
export interface Ensured {
  readonly url: string;
  readonly created: boolean;
}

/** The pool was empty: the transaction must be begun anew with a spare of its own. */
class NoSpare extends Error {}

/** Something holds the spare that was taken: another one will do. */
class HeldSpare extends Error {
  readonly spare: string;

  constructor(spare: string, cause: unknown) {
    super('a spare is locked', { cause });
    this.name = 'HeldSpare';
    this.spare = spare;
  }
}

/** Another transaction registered the workload first: begun anew, this one finds its row. */
class Overtaken extends Error {}

/** What the attempts before this one have learned. */
interface Attempt {
  /** A spare of its own, where the pool was empty or what is in it is held. */
  readonly reserved?: string | undefined;
  readonly passedOver: readonly string[];
  /** The workload's role changes all the time: take its database first. */
  readonly contested: boolean;
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
  let next: Attempt = { passedOver: [], contested: false };
  for (let attempt = 1; ; attempt += 1) {
    const now = next;
    try {
      return await context.connections.transaction((session, again) =>
        act(session, { ...now, contested: now.contested || again > 1 }),
      );
    } catch (error) {
      if (attempt >= MAX_ATTEMPTS) throw error instanceof HeldSpare ? error.cause : error;
      if (error instanceof Overtaken) continue;
      if (!now.contested && isContested(error)) {
        next = { ...now, contested: true };
        continue;
      }
      const held = error instanceof HeldSpare ? error.spare : undefined;
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
    return reassert(context, session, target, row.name, row.generation, keyOf(context, row), 'existing');
  const { generation } = decision;
  const key = context.keyring().current;
  await advanceDatabase(session, workload, row, { life, name: row.name, generation, keyId: key.id });
  return reassert(context, session, target, row.name, generation, key, 'rotated');
}

async function create(
  context: Context,
  session: Session,
  { workload, row: tombstone, life, attempt, entry }: Target,
  generation: number,
): Promise<Ensured> {
  const key = context.keyring().current;
  const name = databaseName(context.nameKey, context.space, workload, generation);
  const password = passwordOf(key, context.space, workload, generation);
  const registration: Registration = { life, name, generation, keyId: key.id };
  const [registered, spare, verifier] = await Promise.all([
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
  context.failpoint('create:after-spare');
  await Promise.all([
    session
      .run('open database', openingStatements(spare, name, verifier, context.connectionLimit))
      .catch((error: unknown) => {
        throw isHeld(error) ? new HeldSpare(spare, error) : error;
      }),
    audit(session, { ...entry, outcome: 'created' }),
  ]);
  context.failpoint('create:after-open');
  context.nudge();
  return { url: databaseUrl(name, password, context.issued), created: true };
}

function isHeld(error: unknown): boolean {
  return error instanceof StepError && error.code === SQLSTATE.lockNotAvailable;
}

async function reassert(
  context: Context,
  session: Session,
  { workload, attempt, entry }: Target,
  name: string,
  generation: number,
  key: DerivationKey,
  outcome: 'existing' | 'rotated',
): Promise<Ensured> {
  const password = passwordOf(key, context.space, workload, generation);
  const [found, verifier] = await Promise.all([observe(session, name), scramVerifier(key, password)]);
  if (found.database !== 'valid' || !found.role) {
    throw new ServiceError(
      'unavailable',
      `database ${found.database}, role ${found.role ? 'present' : 'absent'}`,
    );
  }
  if (attempt.contested) await seize(context, session, [{ name, ...found }]);
  await Promise.all([
    session.run('assert password', passwordStatement(name, verifier)),
    audit(session, { ...entry, outcome }),
  ]);
  return { url: databaseUrl(name, password, context.issued), created: false };
}

function keyOf(context: Context, row: DatabaseRow): DerivationKey {
  const key = context.keyring().byId(row.keyId);
  if (key === undefined)
    throw new ServiceError('unavailable', 'the derivation key of this database is not in the ring');
  return key;
}
