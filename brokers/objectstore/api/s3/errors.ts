import { type ErrorCode, ServiceError } from '@space/broker-kit';
import { NoSuchUpload } from '../../objects/completions.ts';
import { S3Error } from '../../upstream/errors.ts';
import type { Untimely } from './signature.ts';

/** An error for S3 clients: a code of S3 and its status. */
export interface S3Answer {
  readonly status: number;
  readonly code: string;
  /** What to do about it, without anything from the request; by default the sentence for the code. */
  readonly sentence?: string;
}

/** A refusal for which S3 has a more precise code than the services' own. */
export class S3Refusal extends ServiceError {
  readonly answer: S3Answer;

  constructor(code: ErrorCode, answer: S3Answer, message: string) {
    super(code, message);
    this.answer = answer;
  }
}

/** `what` is shown to the caller: a name of this code or of S3, never a text of the request. */
export function notImplemented(what: string): S3Refusal {
  const sentence = `Not offered by this object store: ${what}. Leave it out.`;
  return new S3Refusal(
    'invalid_request',
    { status: 501, code: 'NotImplemented', sentence },
    `not offered: ${what}`,
  );
}

export function badDigest(what: string): S3Refusal {
  return new S3Refusal('invalid_request', { status: 400, code: 'BadDigest' }, `does not match: ${what}`);
}

/** The answer to a caller that has the key; nobody else learns the reason. */
export function untimelyError(why: Untimely, longest: number): S3Refusal {
  return new S3Refusal('forbidden', UNTIMELY[why](longest), `signed in time: ${why}`);
}

const UNTIMELY: Readonly<Record<Untimely, (longest: number) => S3Answer>> = {
  skewed: () => ({ status: 403, code: 'RequestTimeTooSkewed' }),
  // Clients look for this wording of AWS.
  expired: () => ({ status: 403, code: 'AccessDenied', sentence: 'Request has expired' }),
  'too long': (longest) => ({
    status: 400,
    code: 'AuthorizationQueryParametersError',
    sentence: `X-Amz-Expires is more than ${longest} seconds, which is the maximum here. Sign the URL for a shorter time.`,
  }),
};

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
  // Not 507, since S3 clients repeat requests after a 5xx, and a full quota does not change by itself.
  quota_exceeded: { status: 403, code: 'QuotaExceeded' },
};

/** Upstream codes for mistakes of the caller, which reveal nothing of the upstream. */
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
  'RequestHeaderSectionTooLarge',
  'NoSuchUpload',
]);

export function s3AnswerOf(error: ServiceError): Required<S3Answer> {
  const answer = answerOf(error);
  return { ...answer, sentence: answer.sentence ?? sentenceOf(answer.code) };
}

function answerOf(error: ServiceError): S3Answer {
  if (error instanceof S3Refusal) return error.answer;
  if (error instanceof NoSuchUpload) return { status: 404, code: 'NoSuchUpload' };
  const answer = ANSWERS[error.code];
  if (error.cause instanceof S3Error && answer.status < 500 && PASSED_ON.has(error.cause.code))
    return { ...answer, code: error.cause.code };
  return answer;
}

/** The `Message` of an error by S3's code. It contains nothing of the request. */
const SENTENCES: Readonly<Record<string, string>> = {
  AccessDenied:
    'The request is not signed with the current keys of an Assistant, or not all required headers are signed. Read the keys again from /v1/s3/credentials.',
  BadDigest: 'The body does not match its checksum. Send it again.',
  BucketAlreadyOwnedByYou: 'The bucket already exists and need not be created.',
  EntityTooLarge: 'A request may have at most 5 GiB. Upload the object in parts.',
  EntityTooSmall: 'Every part except the last must have at least 5 MiB.',
  IncompleteBody: 'The body ended before its announced length. Send it again.',
  InternalError: 'The object store failed. Try again.',
  InvalidArgument:
    'A key, a parameter or a header has a value that is not accepted. Keys have 1 to 900 bytes of UTF-8 without empty segments, dots, backslashes and control characters; ranges are one range.',
  InvalidChunkSizeError:
    'The body comes in too many small chunks. Send at least 8 KiB in each except the last.',
  InvalidDigest: 'Content-MD5 is not an MD5 in Base64.',
  InvalidPart: 'A part that is listed was not uploaded, or has another ETag.',
  InvalidPartNumber: 'The object has no part with that number.',
  InvalidPartOrder: 'Parts must be listed by number, each once.',
  InvalidRange: 'The object does not have those bytes.',
  InvalidRequest: 'The parts do not have the announced size in total.',
  KeyTooLongError: 'The key, or one of its segments, is too long for the S3 server.',
  MalformedXML: 'The body is not the XML of this operation, or has too many entries.',
  MetadataTooLarge:
    "An object's own metadata may have at most 2 KiB, and all headers that are stored with it 3,400 bytes: 8 each beside name and value, in which angle brackets, ampersands, double quotes and backslashes count six times.",
  MethodNotAllowed: 'This method is not allowed: buckets can neither be deleted nor posted to.',
  MissingContentLength: 'Send Content-Length or x-amz-decoded-content-length.',
  NoSuchBucket: 'There are two buckets: data and shared.',
  NoSuchKey: 'There is no such object.',
  NoSuchUpload: 'There is no such upload; an upload that is not completed is aborted after a day.',
  NotImplemented: 'Not offered by this object store.',
  OperationAborted:
    'The request conflicts with another write, or with an object whose name is a directory of this one.',
  PreconditionFailed: 'The object does not meet the condition of the request.',
  QuotaExceeded:
    "The Capsule's storage quota is full. Delete objects or abort uploads in parts, or ask for a larger quota; an overwrite needs space in addition to what it replaces. GET /v1/usage shows what counts.",
  RequestHeaderSectionTooLarge:
    "An object's key and headers are too long together: a request for them may have about 7 KB. Metadata counts with its full names, twice each.",
  RequestTimeTooSkewed:
    'The clock of the caller is off by more than 15 minutes. Set it by the Date header of this answer.',
  ServiceUnavailable: 'The object store is not available now. Try again.',
  SlowDown: 'Too many requests of this Capsule at once. Wait for the seconds in Retry-After and try again.',
  XAmzContentSHA256Mismatch: 'The body does not match x-amz-content-sha256. Send it again.',
};

function sentenceOf(code: string): string {
  return Object.hasOwn(SENTENCES, code) ? (SENTENCES[code] ?? code) : code;
}

export function noSuchBucket(): S3Refusal {
  return new S3Refusal('not_found', { status: 404, code: 'NoSuchBucket' }, 'no such bucket');
}
