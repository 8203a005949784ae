import { type ErrorCode, ServiceError } from '@space/broker-kit';

/** Why an upstream did not do what was requested. It contains a code of plain letters and never the upstream's text. */
export class S3Error extends Error {
  readonly kind: 'answered' | 'timeout' | 'tls' | 'unreachable';
  /** The HTTP status; 0 without an answer. */
  readonly status: number;
  /** S3's error code (`NoSuchKey`) or the system's (`ECONNREFUSED`); `Unknown` without either. */
  readonly code: string;

  constructor(kind: S3Error['kind'], status: number, code: string, options?: { cause?: unknown }) {
    super(`upstream: ${kind} ${status} ${code}`, options);
    this.name = 'S3Error';
    this.kind = kind;
    this.status = status;
    this.code = code;
  }

  /** Whether the server reports a temporary failure; servers have different codes for that. */
  get isPassing(): boolean {
    return this.kind === 'answered' && (this.status === 503 || this.status === 429);
  }

  /** Whether no connection came about, so that nothing was sent. */
  get isUnsent(): boolean {
    return this.kind !== 'answered' && UNCONNECTED.has(this.code);
  }

  /** Whether the server refuses a write since its disk, or a quota of its own, is full; then nothing is stored. */
  get isFull(): boolean {
    return this.kind === 'answered' && (this.status === 507 || this.code === 'QuotaExceeded');
  }

  /** Whether the server may have refused a write for that reason: some only say that they have failed. */
  get mayBeFull(): boolean {
    return this.isFull || (this.kind === 'answered' && this.status === 500);
  }
}

/** Codes that only an attempt to connect has. */
const UNCONNECTED = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT']);

/** The code of versitygw, too, if of two requests that delete an object at the same time the other one was faster. */
export const NO_SUCH_KEY = 'NoSuchKey';

/** Our own code: nothing was stored, since a directory was in the way, which has been removed. */
export const DIRECTORY_WENT = 'DirectoryWent';

/** S3's codes for errors that a caller can correct; all others are failures of the upstream. */
const CALLERS_FAULT: Readonly<Record<string, ErrorCode>> = {
  NoSuchKey: 'not_found',
  NotFound: 'not_found',
  NoSuchUpload: 'not_found',
  PreconditionFailed: 'precondition_failed',
  ConditionalRequestConflict: 'conflict',
  OperationAborted: 'conflict',
  ExistingObjectIsDirectory: 'conflict',
  ObjectParentIsFile: 'conflict',
  InvalidRange: 'range_not_satisfiable',
  BadDigest: 'invalid_request',
  InvalidDigest: 'invalid_request',
  XAmzContentChecksumMismatch: 'invalid_request',
  IncompleteBody: 'invalid_request',
  RequestTimeout: 'invalid_request',
  InvalidPart: 'invalid_request',
  InvalidPartOrder: 'invalid_request',
  InvalidPartNumber: 'range_not_satisfiable',
  EntityTooSmall: 'invalid_request',
  KeyTooLongError: 'invalid_request',
  MetadataTooLarge: 'invalid_request',
  RequestHeaderSectionTooLarge: 'invalid_request',
  EntityTooLarge: 'too_large',
  SlowDown: 'unavailable',
  ServiceUnavailable: 'unavailable',
};

/** The service's error for an upstream error; the service's own errors are returned unchanged. */
export function toServiceError(error: unknown): ServiceError {
  if (error instanceof ServiceError) return error;
  if (!(error instanceof S3Error)) return new ServiceError('internal', 'unexpected', { cause: error });
  const code = codeOf(error);
  return new ServiceError(code, error.message, {
    cause: error,
    ...(code === 'unavailable' ? { retryAfter: error.isFull ? FULL_RETRY_SECONDS : 1 } : {}),
  });
}

/** A disk does not become larger in a moment. */
const FULL_RETRY_SECONDS = 30;

function codeOf({ kind, status, code, isPassing, isFull }: S3Error): ErrorCode {
  if (isPassing || isFull) return 'unavailable';
  if (kind === 'timeout') return 'upstream_timeout';
  if (kind !== 'answered') return 'upstream_failed';
  const known = CALLERS_FAULT[code];
  if (known !== undefined) return known;
  // Answers without a body (to HEAD) have only a status.
  if (code !== 'Unknown') return 'upstream_failed';
  if (status === 404) return 'not_found';
  if (status === 412) return 'precondition_failed';
  if (status === 416) return 'range_not_satisfiable';
  return 'upstream_failed';
}

const TIMEOUTS = new Set([
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  'UND_ERR_CONNECT_TIMEOUT',
  'ETIMEDOUT',
]);
const TLS = /^(?:ERR_TLS_|ERR_SSL_|CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|HOSTNAME_MISMATCH|EPROTO)/;

/** Converts the error of a connection or transfer to an S3Error; aborts and our own errors are returned unchanged. */
export function fromTransport(error: unknown): unknown {
  if (error instanceof S3Error || error instanceof ServiceError || !(error instanceof Error)) return error;
  if (error.name === 'AbortError') return error;
  // Of a signal that ends by itself. Its `code` is a number that says nothing.
  if (error.name === 'TimeoutError') return new S3Error('timeout', 0, error.name, { cause: error });
  const code = 'code' in error && typeof error.code === 'string' ? error.code : 'Unknown';
  if (TIMEOUTS.has(code)) return new S3Error('timeout', 0, code, { cause: error });
  return new S3Error(TLS.test(code) ? 'tls' : 'unreachable', 0, code, { cause: error });
}
