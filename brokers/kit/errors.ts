import { type ErrorCode, STATUS, type VerificationCheck } from '@space/contracts/errors';

interface ServiceErrorOptions {
  readonly cause?: unknown;
  /** Seconds until the caller may come back. */
  readonly retryAfter?: number;
  readonly check?: VerificationCheck;
}

/**
 * The only error whose code reaches a caller; any other becomes `internal`. Message and cause are only logged, and must
 * contain no secret.
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

  /** Whether the error is the operators' to repair. An exceeded quota, for example, is the caller's. */
  get isFault(): boolean {
    return this.status >= 500 && this.code !== 'quota_exceeded';
  }
}

/** The one refusal: whatever is wrong with a credential, the caller gets the same bytes. */
export function refusal(): ServiceError {
  return new ServiceError('forbidden', 'credential refused');
}

/** The body of an error answer. The order of its keys is fixed, so that two refusals differ only in the trace id. */
export function errorBody(code: ErrorCode, traceId: string, check?: VerificationCheck): string {
  return JSON.stringify({ error: { code, ...(check === undefined ? {} : { check }) }, trace_id: traceId });
}
