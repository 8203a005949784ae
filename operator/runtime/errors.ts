/** The API server answered with an error. */
export class ApiError extends Error {
  override readonly name: string = 'ApiError';
  readonly status: number;
  readonly reason: string;
  readonly retryAfterMs: number | undefined;
  /** The server's own words. */
  readonly said: string;

  constructor(answer: {
    readonly status: number;
    readonly reason: string;
    readonly message: string;
    readonly retryAfterMs?: number | undefined;
    readonly said?: string;
  }) {
    super(answer.message);
    this.status = answer.status;
    this.reason = answer.reason;
    this.retryAfterMs = answer.retryAfterMs;
    this.said = answer.said ?? answer.message;
  }
}

/**
 * A write that the API server refused: a right is missing, an admission check refused it, or the object is not valid.
 */
export class WriteRefusedError extends ApiError {
  override readonly name: string = 'WriteRefusedError';
  /** The write that was refused: `create Secret "a"`. */
  readonly write: string;

  constructor(write: string, cause: ApiError, said: string) {
    const { status, reason, retryAfterMs } = cause;
    super({ status, reason, retryAfterMs, said, message: `could not ${write}: ${status} ${said}` });
    this.write = write;
  }

  /** Whether a policy or a webhook refused it, and not the server's own validation or authorizer. */
  get byAdmission(): boolean {
    return isOfWebhook(this.said) || this.said.includes("AdmissionPolicy '");
  }
}

/** Whether a webhook refused a request, or could not be asked though it must be. */
const isOfWebhook = (said: string): boolean => /(?:admission|failed calling) webhook "/.test(said);

const REFUSALS = new Set([400, 403, 422]);

/** A webhook may refuse with any status, and one that cannot be asked makes the server answer 500 for as long as it is away. */
export const isRefusedWrite = (error: unknown): error is ApiError =>
  error instanceof ApiError && (REFUSALS.has(error.status) || isOfWebhook(error.said));

/** The message of an admission check may quote a Secret's values, so only the name of the check is repeated. */
export function withoutValues({ said, reason }: ApiError): string {
  const [who] =
    /(?:admission|failed calling) webhook "[^"]{1,253}"|[A-Z][A-Za-z]+AdmissionPolicy '[^']{1,253}'/.exec(
      said,
    ) ?? [];
  return `${who ?? 'it'} refused it (${reason || 'no reason'})`;
}

/** What is stored is not of the types that the schema has now. */
export const isUnmergeable = (error: unknown): boolean =>
  error instanceof ApiError && error.status === 500 && error.said.includes('typed');

/** A read that the API server refused: a right is missing. */
export class ReadRefusedError extends ApiError {
  override readonly name: string = 'ReadRefusedError';
}

/** No answer, or half of one: whether the call had an effect is not known. */
export class TransportError extends Error {
  override readonly name: string = 'TransportError';
}

/** Nothing arrived for a long time: the connection may be dead, or nothing may have happened. */
export class SilenceError extends TransportError {
  override readonly name = 'SilenceError';
}

const hasStatus =
  (status: number) =>
  (error: unknown): error is ApiError =>
    error instanceof ApiError && error.status === status;

export const isNotFound = hasStatus(404);
export const isConflict = hasStatus(409);
export const isGone = hasStatus(410);

/** The requested version is later than any that the server has, as after a restore of its storage. */
export const isAhead = (error: unknown): boolean =>
  error instanceof ApiError && error.status === 504 && error.message.includes('Too large resource version');

export function isAlreadyExists(error: unknown): error is ApiError {
  return isConflict(error) && error.reason === 'AlreadyExists';
}
