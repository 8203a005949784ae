import { createHash, timingSafeEqual } from 'node:crypto';
import { Transform, type TransformCallback } from 'node:stream';
import { ServiceError, SmallPieces } from '@space/broker-kit';
import { cutLast } from '../../upstream/pieces.ts';
import { EMPTY_SHA256, hmac, scopeText, sha256 } from '../../upstream/sigv4.ts';
import { S3Refusal } from './errors.ts';
import { CHUNK_ALGORITHM, TRAILER_ALGORITHM, type Verified } from './signature.ts';

/** The headers that follow a body. */
type Trailers = ReadonlyMap<string, string>;

export interface ChunkedOptions {
  /** Set if every chunk is signed. */
  readonly signed: Verified | undefined;
  /** Headers that may follow the body, as announced in `x-amz-trailer`. */
  readonly trailers: ReadonlySet<string>;
  /** Called with the headers after the body, before the stream ends; it may throw. */
  readonly onTrailers: (trailers: Trailers) => void;
}

type State = 'size' | 'data' | 'data end' | 'trailer' | 'done';

const MAX_LINE = 1_024;
/**
 * A chunk costs a line and, if signed, two hashes. With more chunks than this, a body must have 1 KiB for each of them.
 */
const SMALL_CHUNKS = 1_024;
const CHUNK_BYTES = 1_024;
const SIZE_LINE = /^([0-9a-fA-F]{1,10})(?:;chunk-signature=([0-9a-f]{64}))?$/;
const TRAILER_LINE = /^([a-z0-9-]{1,64}):[ \t]*([\x21-\x7e]{1,128})[ \t]*$/i;
const SIGNATURE = 'x-amz-trailer-signature';

/** Decodes the `aws-chunked` coding of a body, and verifies the signature of every signed chunk. */
export class ChunkedBody extends Transform {
  readonly #options: ChunkedOptions;
  #state: State = 'size';
  #line = '';
  /** The remaining bytes of the current chunk. */
  #left = 0;
  #chunkSignature = '';
  #chunkHash = createHash('sha256');
  #previous: string;
  readonly #trailers = new Map<string, string>();
  readonly #pieces = new SmallPieces((piece) => this.push(piece));
  #chunks = 0;
  /** The bytes of all chunks that have begun. */
  #bytes = 0;

  constructor(options: ChunkedOptions) {
    super({ highWaterMark: 128 * 1024 });
    this.#options = options;
    this.#previous = options.signed?.signature ?? '';
  }

  override _transform(input: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    try {
      let at = 0;
      while (at < input.length)
        at = this.#state === 'data' ? this.#takeData(input, at) : this.#takeLine(input, at);
      this.#pieces.flush();
      done();
    } catch (error) {
      done(error as Error);
    }
  }

  override _flush(done: TransformCallback): void {
    done(this.#state === 'done' ? null : malformed('body cut short'));
  }

  #takeData(input: Buffer, at: number): number {
    const data = input.subarray(at, at + this.#left);
    this.#left -= data.length;
    if (this.#options.signed !== undefined) this.#chunkHash.update(data);
    this.#pieces.add(at + data.length === input.length ? cutLast(data, input) : data);
    if (this.#left === 0) this.#state = 'data end';
    return at + data.length;
  }

  #takeLine(input: Buffer, at: number): number {
    if (this.#state === 'done') throw malformed('bytes after the end');
    const end = input.indexOf(0x0a, at);
    const stop = end === -1 ? input.length : end + 1;
    if (this.#line.length + stop - at > MAX_LINE) throw malformed('line too long');
    this.#line += input.toString('latin1', at, stop);
    if (end === -1) return stop;
    if (!this.#line.endsWith('\r\n')) throw malformed('line end');
    const line = this.#line.slice(0, -2);
    this.#line = '';
    if (this.#state === 'size') this.#beginChunk(line);
    else if (this.#state === 'data end') this.#endChunk(line);
    else this.#takeTrailer(line);
    return stop;
  }

  #beginChunk(line: string): void {
    const [, size, signature] = SIZE_LINE.exec(line) ?? [];
    const { signed } = this.#options;
    if (size === undefined || (signed === undefined) !== (signature === undefined))
      throw malformed('chunk head');
    this.#left = Number.parseInt(size, 16);
    this.#chunks += 1;
    this.#bytes += this.#left;
    if (this.#bytes < (this.#chunks - SMALL_CHUNKS) * CHUNK_BYTES) throw chunksTooSmall();
    this.#chunkSignature = signature ?? '';
    this.#chunkHash = createHash('sha256');
    if (this.#left > 0) {
      this.#state = 'data';
      return;
    }
    this.#verifyChunk();
    this.#state = 'trailer';
  }

  #endChunk(line: string): void {
    if (line !== '') throw malformed('chunk end');
    this.#verifyChunk();
    this.#state = 'size';
  }

  #verifyChunk(): void {
    const { signed } = this.#options;
    if (signed === undefined) return;
    const digests = `${EMPTY_SHA256}\n${this.#chunkHash.digest('hex')}`;
    this.#previous = this.#verified(signed, CHUNK_ALGORITHM, digests, this.#chunkSignature);
  }

  #takeTrailer(line: string): void {
    if (line === '') {
      this.#finish();
      return;
    }
    const [, raw, value] = TRAILER_LINE.exec(line) ?? [];
    const name = raw?.toLowerCase();
    if (name === undefined || value === undefined || this.#trailers.has(name)) throw malformed('trailer');
    if (name !== SIGNATURE && !this.#options.trailers.has(name)) throw malformed('trailer not announced');
    this.#trailers.set(name, value);
  }

  #finish(): void {
    const { signed, trailers, onTrailers } = this.#options;
    const signature = this.#trailers.get(SIGNATURE);
    this.#trailers.delete(SIGNATURE);
    if (this.#trailers.size !== trailers.size) throw malformed('trailer missing');
    if (signed !== undefined && trailers.size > 0) {
      const text = [...this.#trailers].map(([name, value]) => `${name}:${value}\n`).join('');
      this.#verified(signed, TRAILER_ALGORITHM, sha256(text), signature ?? '');
    }
    this.#state = 'done';
    onTrailers(this.#trailers);
  }

  /** @throws unless the signature continues the previous one */
  #verified({ key, time, scope }: Verified, algorithm: string, digests: string, given: string): string {
    const text = [algorithm, time, scopeText(scope), this.#previous, digests].join('\n');
    const expected = hmac(key, text);
    if (!/^[0-9a-f]{64}$/.test(given) || !timingSafeEqual(Buffer.from(given, 'hex'), expected))
      throw new ServiceError('forbidden', 'signature of a chunk');
    return given;
  }
}

/** The error of AWS, which accepts only the last chunk below 8 KiB. */
function chunksTooSmall(): S3Refusal {
  const answer = { status: 403, code: 'InvalidChunkSizeError' };
  return new S3Refusal('invalid_request', answer, 'aws-chunked: too many small chunks');
}

function malformed(what: string): ServiceError {
  return new ServiceError('invalid_request', `aws-chunked: ${what}`);
}
