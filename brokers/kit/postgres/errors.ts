import pg from 'pg';
import { ServiceError } from '../errors.ts';

/** A statement failed. The error has the name of the step and the SQLSTATE, and nothing of the server's text. */
export class StepError extends Error {
  readonly step: string;
  /** The SQLSTATE, or the network error's code; undefined without either. */
  readonly code: string | undefined;

  constructor(step: string, cause: unknown) {
    const code = codeOf(cause);
    super(`${step}: ${code ?? 'connection lost'}`, { cause });
    this.name = 'StepError';
    this.step = step;
    this.code = code;
  }

  /** Whether the server answered. If not, the connection was lost and the outcome is unknown. */
  get answered(): boolean {
    return this.cause instanceof pg.DatabaseError;
  }
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

export const SQLSTATE = {
  /** Connection poolers also use it, for session settings that they do not support. */
  protocolViolation: '08P01',
  uniqueViolation: '23505',
  /** The server's lock table or its memory is full. */
  outOfMemory: '53200',
  undefinedDatabase: '3D000',
  insufficientPrivilege: '42501',
  duplicateRole: '42710',
  duplicateDatabase: '42P04',
  /** Other objects depend on the object that was to be dropped. */
  dependentObjects: '2BP01',
  /** An earlier statement of this transaction has failed. */
  inFailedTransaction: '25P02',
  objectInUse: '55006',
  lockNotAvailable: '55P03',
  /** "tuple concurrently updated": two sessions changed the same catalogue row. */
  internal: 'XX000',
} as const;

// A unique violation is a race, too: ON CONFLICT handles a concurrent insert only at the index that it names, and at
// any other index the insert fails. When repeated, the transaction sees the other row.
const RACES = new Set<string>([SQLSTATE.internal, SQLSTATE.uniqueViolation, '40001', '40P01']);

/** Whether the same transaction would probably succeed if repeated. */
export function isRace(error: unknown): boolean {
  return error instanceof StepError && error.code !== undefined && RACES.has(error.code);
}

/** Whether the server was full of locks of a session that will soon be ended. */
export function isFull(error: unknown): boolean {
  return error instanceof StepError && error.code === SQLSTATE.outOfMemory;
}

/** Whether the same step failed twice at a unique index: then the other row is permanent, and it was not a race. */
export function isDuplicate(error: unknown, before: unknown): boolean {
  return (
    error instanceof StepError &&
    before instanceof StepError &&
    error.code === SQLSTATE.uniqueViolation &&
    before.code === error.code &&
    before.step === error.step
  );
}

// SQLSTATE classes of connections, resources, operator intervention, and refused logins of the broker itself.
const PASSING_CLASSES = new Set(['08', '28', '53', '57']);
const PASSING = new Set([
  ...RACES,
  '25006',
  SQLSTATE.objectInUse,
  SQLSTATE.lockNotAvailable,
  '55000',
  '3D000',
]);

/** Converts a failed statement into the caller's error: `unavailable` if it may succeed later, else `internal`. */
export function toServiceError(error: unknown): unknown {
  if (!(error instanceof StepError)) return error;
  const { code } = error;
  const passing =
    !error.answered || (code !== undefined && (PASSING_CLASSES.has(code.slice(0, 2)) || PASSING.has(code)));
  return passing
    ? new ServiceError('unavailable', 'the database server cannot do this now', {
        cause: error,
        retryAfter: 2,
      })
    : new ServiceError('internal', 'the database server refused a statement', { cause: error });
}
