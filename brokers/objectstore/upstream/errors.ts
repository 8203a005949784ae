import { type ErrorCode, ServiceError } from '@space/broker-kit';

/** Why an upstream did not do what was asked. Its own text never gets in here, only a code of plain letters. */
export class S3Error extends Error {
  readonly kind: 'answered' | 'timeout' | 'tls' | 'unreachable';
  /** The HTTP status of an answer; 0 without one. */
  readonly status: number;
  /** S3's error code (`NoSuchKey`) or the system's (`ECONNREFUSED`); `Unknown` when it had neither. */
  readonly code: string;

  constructor(kind: S3Error['kind'], status: number, code: string, options?: { cause?: unknown }) {
    super(`upstream: ${kind} ${status} ${code}`, options);
    this.name = 'S3Error';
    this.kind = kind;
    this.status = status;
    this.code = code;
  }

  /** Whether the server says itself that it cannot now; each has codes of its own for that. */
  get isPassing(): boolean {
    return this.kind === 'answered' && (this.status === 503 || this.status === 429);
  }
}

/** Ours: nothing was stored, because a directory was in the way that is gone now. */
export const DIRECTORY_WENT = 'DirectoryWent';

/** S3's codes for what a caller can mend; every other answer is our own trouble with the upstream. */
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
  EntityTooLarge: 'too_large',
  SlowDown: 'unavailable',
  ServiceUnavailable: 'unavailable',
};

/** The closed code for whatever went wrong upstream; errors of ours pass as they are. */
export function toServiceError(error: unknown): ServiceError {
  if (error instanceof ServiceError) return error;
  if (!(error instanceof S3Error)) return new ServiceError('internal', 'unexpected', { cause: error });
  const code = codeOf(error);
  return new ServiceError(code, error.message, {
    cause: error,
    ...(code === 'unavailable' ? { retryAfter: 1 } : {}),
  });
}

function codeOf({ kind, status, code, isPassing }: S3Error): ErrorCode {
  if (isPassing) return 'unavailable';
  if (kind === 'timeout') return 'upstream_timeout';
  if (kind !== 'answered') return 'upstream_failed';
  const known = CALLERS_FAULT[code];
  if (known !== undefined) return known;
  // Answers without a body (HEAD) have nothing but their status.
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

/** What a failed connection or transfer is to us. Aborts and errors of ours stay what they are. */
export function fromTransport(error: unknown): unknown {
  if (error instanceof S3Error || error instanceof ServiceError || !(error instanceof Error)) return error;
  if (error.name === 'AbortError') return error;
  // Of a signal that ends by itself. Its `code` is a number that says nothing.
  if (error.name === 'TimeoutError') return new S3Error('timeout', 0, error.name, { cause: error });
  const code = 'code' in error && typeof error.code === 'string' ? error.code : 'Unknown';
  if (TIMEOUTS.has(code)) return new S3Error('timeout', 0, code, { cause: error });
  return new S3Error(TLS.test(code) ? 'tls' : 'unreachable', 0, code, { cause: error });
}
