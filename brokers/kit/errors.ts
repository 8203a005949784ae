import { type ErrorCode, STATUS, type VerificationCheck } from '@space/contracts/errors';

interface ServiceErrorOptions {
  readonly cause?: unknown;
  /** Seconds. */
  readonly retryAfter?: number;
  readonly check?: VerificationCheck;
}

/**
 * The only error whose code reaches a caller; everything else becomes `internal`. The message and the cause are
 * for our log and must hold no secret; nothing of them is ever sent.
 */
export class ServiceError extends Error {
  readonly code: ErrorCode;
  /** Seconds, for the codes that ask the caller to come back. */
  readonly retryAfter: number | undefined;
  readonly check: VerificationCheck | undefined;

  constructor(code: ErrorCode, message: string, options: ServiceErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'ServiceError';
    this.code = code;
    this.retryAfter = options.retryAfter;
    this.check = options.check;
  }

  get status(): number {
    return STATUS[this.code];
  }

  /** Whether it is for our operators to mend, rather than for the caller: a full quota is the caller's own. */
  get isFault(): boolean {
    return this.status >= 500 && this.code !== 'quota_exceeded';
  }
}

/** The one refusal: whatever is wrong with a credential, the caller sees the same bytes. */
export function refusal(): ServiceError {
  return new ServiceError('forbidden', 'credential refused');
}

/** What is sent for an error. Keys in this order, so that two refusals differ only in the trace id. */
export function errorBody(code: ErrorCode, traceId: string, check?: VerificationCheck): string {
  return JSON.stringify({ error: { code, ...(check === undefined ? {} : { check }) }, trace_id: traceId });
}
