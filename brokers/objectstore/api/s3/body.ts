import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { type Readable, Transform, type TransformCallback } from 'node:stream';
import { ServiceError } from '@space/broker-kit';
import type { IncomingBody } from '../../objects/types.ts';
import { MAX_PUT_BYTES } from '../../objects/writer.ts';
import { UNSIGNED_PAYLOAD } from '../../upstream/sigv4.ts';
import type { Received } from '../exchange.ts';
import { detach } from '../request-body.ts';
import { ChunkedBody } from './aws-chunked-decoder.ts';
import { createChecksum } from './checksums.ts';
import { badDigest, notImplemented, S3Refusal } from './errors.ts';
import type { Verified } from './signature.ts';

const CHECKSUM = 'x-amz-checksum-';
/** Headers with the prefix of checksums that are none. */
const NOT_CHECKSUMS = new Set(['x-amz-checksum-mode', 'x-amz-checksum-algorithm', 'x-amz-checksum-type']);
const SHA256 = /^[0-9a-f]{64}$/;

const SIGNED_CHUNKS = 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD';
const SIGNED_CHUNKS_TRAILER = 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER';
const UNSIGNED_CHUNKS_TRAILER = 'STREAMING-UNSIGNED-PAYLOAD-TRAILER';

export interface S3Body extends IncomingBody {
  /** Verified checksum headers, for the answer. */
  readonly checksums: Readonly<Record<string, string>>;
}

/** The decoded body of a signed request. Nothing is read before the stream is. */
export function s3Body(
  request: IncomingMessage,
  headers: Received,
  verified: Verified,
  call: Parameters<typeof detach>[1],
): S3Body {
  const payload = headers.get('x-amz-content-sha256') ?? '';
  const chunked = payload.startsWith('STREAMING-');
  const length = lengthOf(headers, chunked ? 'x-amz-decoded-content-length' : 'content-length');
  const announced = announcedChecksums(headers);
  const trailers = announcedTrailers(headers);
  if (announced.size + trailers.size > 1) throw tooManyChecksums();
  const inspections: Inspection[] = [...announced].map(([name, value]) => inspectChecksum(name, () => value));

  let source: Readable = detach(request, call);
  if (chunked) {
    if (payload !== SIGNED_CHUNKS && payload !== SIGNED_CHUNKS_TRAILER && payload !== UNSIGNED_CHUNKS_TRAILER)
      throw notImplemented('this way to sign a body');
    if (payload.endsWith('-TRAILER') !== trailers.size > 0)
      throw new ServiceError('invalid_request', 'trailers');
    let followed: ReadonlyMap<string, string> = new Map();
    const coded = new ChunkedBody({
      signed: payload === UNSIGNED_CHUNKS_TRAILER ? undefined : verified,
      trailers,
      onTrailers: (found) => {
        followed = found;
      },
    });
    for (const name of trailers) inspections.push(inspectChecksum(name, () => followed.get(name)));
    source = into(source, coded);
  } else {
    if (trailers.size > 0) throw new ServiceError('invalid_request', 'trailers');
    if (SHA256.test(payload)) inspections.push(inspectSha256(payload));
    else if (payload !== UNSIGNED_PAYLOAD) throw new ServiceError('invalid_request', 'x-amz-content-sha256');
  }
  const md5 = headers.get('content-md5');
  if (md5 !== undefined) inspections.push(inspect('md5', () => md5));
  return {
    stream: into(source, new VerifiedBody(length, inspections)),
    length,
    checksums: Object.fromEntries(announced),
  };
}

function lengthOf(headers: Received, name: string): number {
  const text = headers.get(name);
  if (text === undefined) throw new ServiceError('length_required', 'no length');
  if (!/^[0-9]{1,16}$/.test(text)) throw new ServiceError('invalid_request', 'length');
  const length = Number(text);
  if (length > MAX_PUT_BYTES) throw new ServiceError('too_large', 'more than one request may bring');
  return length;
}

/** Each checksum is computed over every byte; S3 accepts only one, too. */
function tooManyChecksums(): S3Refusal {
  const sentence = 'A body has one checksum at most, in a header or behind it.';
  return new S3Refusal(
    'invalid_request',
    { status: 400, code: 'InvalidRequest', sentence },
    'several checksums',
  );
}

function announcedChecksums(headers: Received): ReadonlyMap<string, string> {
  const found = [...headers].filter(([name]) => name.startsWith(CHECKSUM) && !NOT_CHECKSUMS.has(name));
  return new Map(found);
}

function announcedTrailers(headers: Received): ReadonlySet<string> {
  const names = (headers.get('x-amz-trailer') ?? '').toLowerCase().split(',');
  return new Set(names.map((name) => name.trim()).filter((name) => name !== ''));
}

function inspectChecksum(header: string, expected: () => string | undefined): Inspection {
  if (!header.startsWith(CHECKSUM)) throw notImplemented('a trailer that is no checksum');
  return inspect(header.slice(CHECKSUM.length), expected);
}

function inspect(algorithm: string, expected: () => string | undefined): Inspection {
  const checksum = createChecksum(algorithm);
  if (checksum === undefined) throw notImplemented('this algorithm of checksums');
  return {
    update: (data) => checksum.update(data),
    finish: () => {
      if (checksum.base64() !== expected()) throw badDigest(algorithm);
    },
  };
}

function inspectSha256(expected: string): Inspection {
  const hash = createHash('sha256');
  return {
    update: (data) => void hash.update(data),
    finish: () => {
      if (hash.digest('hex') !== expected)
        throw new S3Refusal(
          'invalid_request',
          { status: 400, code: 'XAmzContentSHA256Mismatch' },
          'does not match: sha256',
        );
    },
  };
}

/** Pipes, and ends each side after an error of the other, without affecting the caller's connection. */
function into<To extends Readable & NodeJS.WritableStream>(from: Readable, to: To): To {
  from.on('error', (error) => to.destroy(error));
  to.on('close', () => from.destroy());
  to.on('error', () => undefined);
  from.pipe(to);
  return to;
}

/** Examines a body as it passes, and decides at its end whether it is the announced one. */
export interface Inspection {
  update(data: Buffer): void;
  /** Throws a ServiceError. */
  finish(): void;
}

/**
 * Passes a body on, but its last piece only after all inspections have succeeded: a server that was promised a length
 * stores nothing if the end is missing.
 */
export class VerifiedBody extends Transform {
  readonly #length: number;
  readonly #inspections: readonly Inspection[];
  #held: Buffer | undefined;
  #seen = 0;

  constructor(length: number, inspections: readonly Inspection[]) {
    super({ highWaterMark: 128 * 1024 });
    this.#length = length;
    this.#inspections = inspections;
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#seen += chunk.length;
    if (this.#seen > this.#length) {
      done(new ServiceError('invalid_request', 'longer than announced'));
      return;
    }
    for (const inspection of this.#inspections) inspection.update(chunk);
    if (this.#held !== undefined) this.push(this.#held);
    this.#held = chunk;
    done();
  }

  override _flush(done: TransformCallback): void {
    try {
      if (this.#seen !== this.#length) throw new ServiceError('invalid_request', 'shorter than announced');
      for (const inspection of this.#inspections) inspection.finish();
      if (this.#held !== undefined) this.push(this.#held);
      done();
    } catch (error) {
      done(error as Error);
    }
  }
}
