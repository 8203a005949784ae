/** The API server answered, and the answer is no. */
export class ApiError extends Error {
  readonly status: number;
  readonly reason: string;
  readonly retryAfterMs: number | undefined;

  constructor(answer: {
    readonly status: number;
    readonly reason: string;
    readonly message: string;
    readonly retryAfterMs?: number | undefined;
  }) {
    super(answer.message);
    this.name = 'ApiError';
    this.status = answer.status;
    this.reason = answer.reason;
    this.retryAfterMs = answer.retryAfterMs;
  }
}

/** No answer, or half of one: whether the call had an effect is not known. */
export class TransportError extends Error {
  override readonly name: string = 'TransportError';
}

/** Nothing came for so long that it may be dead, or there may be nothing to say: only asking again tells. */
export class SilenceError extends TransportError {
  override readonly name = 'SilenceError';
}

/** Trying again cannot help until something changes; the queue forgets the key. */
export class TerminalError extends Error {
  override readonly name = 'TerminalError';
}

const hasStatus =
  (status: number) =>
  (error: unknown): error is ApiError =>
    error instanceof ApiError && error.status === status;

export const isNotFound = hasStatus(404);
export const isConflict = hasStatus(409);
export const isGone = hasStatus(410);

export function isAlreadyExists(error: unknown): error is ApiError {
  return isConflict(error) && error.reason === 'AlreadyExists';
}
