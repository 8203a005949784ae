/** What an error's `Message` says to do, by S3's code. Nothing of the request is in it. */
const SENTENCES: Readonly<Record<string, string>> = {
  AccessDenied:
    'The request is not signed with the current keys of an Assistant, or not all that counts is signed. Read the keys again from /v1/s3/credentials.',
  BadDigest: 'The body is not the one that its checksum is of. Send it again.',
  BucketAlreadyOwnedByYou: 'The bucket is there already and need not be made.',
  EntityTooLarge: 'One request brings 5 GiB at most. Upload the object in parts.',
  EntityTooSmall: 'Every part but the last must have 5 MiB at least.',
  IncompleteBody: 'The body ended before its announced length. Send it again.',
  InternalError: 'The object store did not do it. Try again.',
  InvalidArgument:
    'A key, a parameter or a header has a value that is not taken. Keys have 1 to 900 bytes of UTF-8 without empty segments, dots, backslashes and control characters; ranges are one range.',
  InvalidDigest: 'Content-MD5 is no MD5 in Base64.',
  InvalidPart: 'A part that is listed was not uploaded, or has another ETag.',
  InvalidPartNumber: 'The object has no part of that number.',
  InvalidPartOrder: 'Parts are listed by number, each once.',
  InvalidRange: 'The object does not have those bytes.',
  InvalidRequest: 'The parts do not have the size together that was announced.',
  KeyTooLongError: 'The key, or one of its segments, is too long for the S3 server.',
  MalformedXML: 'The body is not the XML of this operation, or has too many entries.',
  MetadataTooLarge: "An object's own metadata has 2 KiB at most.",
  MethodNotAllowed: 'No such method here: buckets are neither removed nor posted to.',
  MissingContentLength: 'Send Content-Length or x-amz-decoded-content-length.',
  NoSuchBucket: 'There are two buckets: data and shared.',
  NoSuchKey: 'There is no such object.',
  NoSuchUpload: 'There is no such upload; one that nobody finished is given up after a day.',
  NotImplemented: 'Not offered by this object store.',
  OperationAborted:
    'Something else is in the way: another write, or an object whose name is a directory of this one.',
  PreconditionFailed: 'The object does not meet the condition of the request.',
  QuotaExceeded:
    "The Capsule's storage quota is full. Delete objects or give up uploads in parts, or ask for a larger quota; an overwrite needs room beside what it replaces. GET /v1/usage tells what counts.",
  RequestTimeTooSkewed:
    'The clock of the caller is more than 15 minutes off. Set it by the Date header of this answer.',
  ServiceUnavailable: 'The object store is not available now. Try again.',
  SlowDown: 'Too many requests of this Capsule at once. Wait for the seconds of Retry-After and try again.',
  XAmzContentSHA256Mismatch: 'The body is not the one that x-amz-content-sha256 is of. Send it again.',
};

export function sentenceOf(code: string): string {
  return Object.hasOwn(SENTENCES, code) ? (SENTENCES[code] ?? code) : code;
}
