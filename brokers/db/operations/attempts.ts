import { ServiceError } from '@space/broker-kit';
import { isRace, type Session, SQLSTATE, StepError } from '@space/broker-kit/postgres';
import type { Context } from '../context.ts';
import type { Patience } from '../isolation/statements.ts';
import { makeSpare, type SpareChoice } from '../spares/pool.ts';

/** The pool was empty: the transaction must be repeated with a spare that is cloned for it. */
export class NoSpare extends Error {}

/** Another transaction has registered the workload: this one must be repeated, and then finds the row. */
export class Overtaken extends Error {}

/** What earlier attempts have shown. If the pool was empty or its spares were locked, a spare was cloned. */
export interface Attempt extends SpareChoice {
  /** Whether the tenant changes its role all the time, so that its database must be seized first. */
  readonly contested: boolean;
  /** Whether a session cannot be ended now, so that the database cannot be seized. */
  readonly occupied: boolean;
  /** Called with the spare that the attempt uses. */
  readonly take: (spare: string) => void;
}

/** How long to wait for the lock of a spare: one that was cloned for this attempt has no alternative. */
export const patienceOf = ({ reserved }: SpareChoice): Patience =>
  reserved === undefined ? 'give' : 'insist';

const MAX_ATTEMPTS = 6;
/** How many locked spares are skipped before one is cloned, which nobody else can have locked. */
const MAX_PASSED_OVER = 2;

/**
 * Runs a transaction that may need a spare. If the pool is empty or its spares are locked, a spare is cloned outside
 * the transaction; after a crash it remains closed, and the upkeep adopts it.
 */
export async function withSpare<T>(
  context: Context,
  act: (session: Session, attempt: Attempt) => Promise<T>,
): Promise<T> {
  let taken = '';
  const take = (spare: string) => {
    taken = spare;
  };
  let next: Attempt = { passedOver: [], contested: false, occupied: false, take };
  for (let attempt = 1; ; attempt += 1) {
    const now = next;
    try {
      return await context.connections.transaction((session, again) =>
        act(session, { ...now, contested: now.contested || again > 1 }),
      );
    } catch (error) {
      const remedy = attempt < MAX_ATTEMPTS ? remedyOf(error, now, taken) : undefined;
      if (remedy === undefined) throw error;
      next = remedy.clone ? { ...remedy.next, reserved: await cloneSpare(context) } : remedy.next;
    }
  }
}

interface Remedy {
  readonly next: Attempt;
  /** Whether the next attempt needs a spare that is cloned for it. */
  readonly clone: boolean;
}

/** What the next attempt must do differently; undefined if another attempt would not help. */
function remedyOf(error: unknown, attempt: Attempt, taken: string): Remedy | undefined {
  if (error instanceof Overtaken) return { next: attempt, clone: false };
  if (!attempt.contested && isContested(error))
    return { next: { ...attempt, contested: true }, clone: false };
  if (!attempt.occupied && isOccupied(error)) return { next: { ...attempt, occupied: true }, clone: false };
  const next = { ...attempt, reserved: undefined };
  if (isSpareLocked(error)) {
    const passedOver = [...attempt.passedOver, taken];
    const clone = taken === attempt.reserved || passedOver.length > MAX_PASSED_OVER;
    return { next: { ...next, passedOver }, clone };
  }
  return error instanceof NoSpare || isSpareStolen(error) ? { next, clone: true } : undefined;
}

/** Whether another session has locked the spare, so that another spare helps. */
function isSpareLocked(error: unknown): boolean {
  return (
    error instanceof StepError && error.step === 'open database' && error.code === SQLSTATE.lockNotAvailable
  );
}

const isSpareStolen = (error: unknown): boolean =>
  error instanceof StepError && error.code === SQLSTATE.undefinedDatabase;

/** Whether the row of the role stayed locked or changed in every attempt. */
function isContested(error: unknown): boolean {
  return (
    error instanceof StepError &&
    error.step === 'assert password' &&
    (error.code === SQLSTATE.lockNotAvailable || error.code === SQLSTATE.internal)
  );
}

/** Whether a session computes what nothing interrupts, or is a superuser's. */
function isOccupied(error: unknown): boolean {
  return (
    error instanceof StepError &&
    error.step === 'seize database' &&
    (error.code === SQLSTATE.objectInUse || error.code === SQLSTATE.lockNotAvailable)
  );
}

async function cloneSpare(context: Context): Promise<string> {
  context.nudge();
  context.failpoint('cold:before-clone');
  const spare = await cloneWithRetries(context);
  context.failpoint('cold:after-clone');
  return spare;
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
