import { type ErrorCode, ServiceError } from '@space/broker-kit';
import { NoSuchUpload } from '../data/multipart.ts';
import { S3Error } from '../upstream/errors.ts';

/** What S3 clients understand: a code of S3 and its status. */
export interface S3Answer {
  readonly status: number;
  readonly code: string;
}

/** A refusal for which S3 has a better code than our catalogue. */
export class FrontError extends ServiceError {
  readonly answer: S3Answer;

  constructor(code: ErrorCode, answer: S3Answer, message: string) {
    super(code, message);
    this.answer = answer;
  }
}

export function notImplemented(what: string): FrontError {
  return new FrontError('invalid_request', { status: 501, code: 'NotImplemented' }, `not offered: ${what}`);
}

export function badDigest(what: string): FrontError {
  return new FrontError('invalid_request', { status: 400, code: 'BadDigest' }, `does not match: ${what}`);
}

const ANSWERS: Readonly<Record<ErrorCode, S3Answer>> = {
  invalid_request: { status: 400, code: 'InvalidArgument' },
  forbidden: { status: 403, code: 'AccessDenied' },
  not_found: { status: 404, code: 'NoSuchKey' },
  method_not_allowed: { status: 405, code: 'MethodNotAllowed' },
  conflict: { status: 409, code: 'OperationAborted' },
  stale_generation: { status: 409, code: 'OperationAborted' },
  already_exists: { status: 409, code: 'OperationAborted' },
  credential_selected: { status: 409, code: 'OperationAborted' },
  stale_grant: { status: 409, code: 'OperationAborted' },
  length_required: { status: 411, code: 'MissingContentLength' },
  precondition_failed: { status: 412, code: 'PreconditionFailed' },
  too_large: { status: 400, code: 'EntityTooLarge' },
  unsupported_media_type: { status: 400, code: 'InvalidArgument' },
  range_not_satisfiable: { status: 416, code: 'InvalidRange' },
  verification_failed: { status: 400, code: 'InvalidArgument' },
  rate_limited: { status: 503, code: 'SlowDown' },
  internal: { status: 500, code: 'InternalError' },
  upstream_failed: { status: 502, code: 'InternalError' },
  unavailable: { status: 503, code: 'ServiceUnavailable' },
  custody_unavailable: { status: 503, code: 'ServiceUnavailable' },
  custody_rollback: { status: 503, code: 'ServiceUnavailable' },
  upstream_timeout: { status: 504, code: 'InternalError' },
  // Not 507: S3 clients repeat what fails with 5xx, and a full quota does not empty itself.
  quota_exceeded: { status: 403, code: 'QuotaExceeded' },
};

/** Codes of the upstream that say what the caller did wrong; they name nothing of ours. */
const PASSED_ON = new Set([
  'BadDigest',
  'InvalidDigest',
  'IncompleteBody',
  'InvalidPart',
  'InvalidPartOrder',
  'InvalidPartNumber',
  'EntityTooSmall',
  'KeyTooLongError',
  'MetadataTooLarge',
  'NoSuchUpload',
]);

export function s3AnswerOf(error: ServiceError): S3Answer {
  if (error instanceof FrontError) return error.answer;
  if (error instanceof NoSuchUpload) return { status: 404, code: 'NoSuchUpload' };
  const answer = ANSWERS[error.code];
  if (error.cause instanceof S3Error && answer.status < 500 && PASSED_ON.has(error.cause.code))
    return { ...answer, code: error.cause.code };
  return answer;
}
