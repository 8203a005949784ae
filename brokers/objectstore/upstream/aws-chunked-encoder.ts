import { type Readable, Transform, type TransformCallback } from 'node:stream';
import { crc32 } from 'node:zlib';
import { cutLast } from './pieces.ts';

/**
 * A body in the `aws-chunked` coding with a CRC-32 at its end. The coding also has an unmistakable end: with a plain
 * body, some servers (versitygw) take the end of the connection for the end of the object, and replace a good object by
 * half of an interrupted upload.
 */
export interface CodedBody {
  readonly stream: Readable;
  /** The number of bytes including the coding. */
  readonly length: number;
  readonly headers: Readonly<Record<string, string>>;
}

/** The payload hash's replacement for a request with such a body. */
export const CODED_PAYLOAD = 'STREAMING-UNSIGNED-PAYLOAD-TRAILER';

const CHUNK = 1024 * 1024;
const TRAILER = 'x-amz-checksum-crc32';
/** `0CRLF`, the trailer with 8 characters of Base64, an empty line. */
const END_BYTES = `0\r\n${TRAILER}:AAAAAA==\r\n\r\n`.length;

export function encodeChunked(source: Readable, length: number): CodedBody {
  const stream = new ChunkCoder(length);
  connect(source, stream);
  return {
    stream,
    length: codedLength(length),
    headers: { 'x-amz-decoded-content-length': String(length), 'x-amz-trailer': TRAILER },
  };
}

/** Passes every error to the reader of the encoded body. A pipeline() would create and throw an error for each body. */
function connect(source: Readable, stream: ChunkCoder): void {
  const onEnd = () => void (source.readableEnded || stream.destroy(source.errored ?? new Error('cut short')));
  stream.on('close', () => source.destroy()).on('error', () => undefined);
  if (source.destroyed) onEnd();
  else
    source
      .on('error', (error) => stream.destroy(error))
      .on('close', onEnd)
      .pipe(stream);
}

function codedLength(length: number): number {
  const whole = Math.floor(length / CHUNK);
  const rest = length % CHUNK;
  const around = (size: number) => size.toString(16).length + 4;
  return length + whole * around(CHUNK) + (rest === 0 ? 0 : around(rest)) + END_BYTES;
}

/** Writes chunk headers between slices of the data, which is not copied. */
class ChunkCoder extends Transform {
  /** The remaining bytes of the whole body, and of the current chunk. */
  #left: number;
  #inChunk = 0;
  #begun = false;
  #crc = 0;

  constructor(length: number) {
    super({ highWaterMark: 128 * 1024 });
    this.#left = length;
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    if (chunk.length > this.#left) {
      done(new Error('body longer than announced'));
      return;
    }
    this.#crc = crc32(chunk, this.#crc);
    for (let at = 0; at < chunk.length; ) {
      if (this.#inChunk === 0) this.#beginChunk();
      const slice = chunk.subarray(at, at + this.#inChunk);
      this.push(at + slice.length === chunk.length ? cutLast(slice, chunk) : slice);
      this.#inChunk -= slice.length;
      this.#left -= slice.length;
      at += slice.length;
    }
    done();
  }

  override _flush(done: TransformCallback): void {
    if (this.#left > 0) {
      done(new Error('body shorter than announced'));
      return;
    }
    const sum = Buffer.alloc(4);
    sum.writeUInt32BE(this.#crc);
    this.push(`${this.#begun ? '\r\n' : ''}0\r\n${TRAILER}:${sum.toString('base64')}\r\n\r\n`);
    done();
  }

  #beginChunk(): void {
    this.#inChunk = Math.min(CHUNK, this.#left);
    this.push(`${this.#begun ? '\r\n' : ''}${this.#inChunk.toString(16)}\r\n`);
    this.#begun = true;
  }
}
