import { IncomingMessage } from 'node:http';

/** Bytes of a body that are buffered before it is read, in addition to the rest of the same segment. */
const MOST_BYTES = 16 * 1024;
/** Smaller pieces are combined in blocks of this size. */
const BLOCK_BYTES = 4 * 1024;
const LARGE_BYTES = 1024;

/**
 * A request whose waiting body takes no more memory than it has bytes. Node's own stream keeps each piece as an object
 * of about 300 bytes, so a caller that sends a chunk for every byte and has to wait would take three hundred times as
 * much.
 */
export class ArrivingRequest extends IncomingMessage {
  #parts: Buffer[] = [];
  /** The last block while it has room, and the number of its used bytes. */
  #block: Buffer | undefined;
  #used = 0;
  #bytes = 0;
  #whole = false;
  #wake: (() => void) | undefined;

  /** Called by Node's parser with each piece, and with null at the end; false stops it. */
  override push(piece: unknown, encoding?: BufferEncoding): boolean {
    if (!Buffer.isBuffer(piece)) {
      this.#whole = piece === null;
      this.#wake?.();
      return super.push(piece, encoding);
    }
    this.#bytes += piece.length;
    if (piece.length >= LARGE_BYTES) {
      this.#closeBlock();
      this.#parts.push(piece);
    } else this.#gather(piece);
    this.#wake?.();
    return this.#bytes < MOST_BYTES;
  }

  /** The body for one reader, in the parts in which it arrives. @throws if it is incomplete */
  async *body(): AsyncGenerator<Buffer> {
    for (;;) {
      if (this.#bytes > 0) yield this.#take();
      // Nobody reads it as a stream, but its connection must see its end.
      else if (this.#whole) return void this.resume();
      else if (this.destroyed) throw new Error('the body was cut short');
      else {
        // Continues to read the connection.
        this._read(0);
        const { promise, resolve } = Promise.withResolvers<void>();
        this.#wake = resolve;
        await promise;
        this.#wake = undefined;
      }
    }
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#wake?.();
    super._destroy(error, done);
  }

  #gather(piece: Buffer): void {
    let rest = piece;
    while (rest.length > 0) {
      this.#block ??= Buffer.allocUnsafeSlow(BLOCK_BYTES);
      const copied = rest.copy(this.#block, this.#used);
      this.#used += copied;
      rest = rest.subarray(copied);
      if (this.#used === BLOCK_BYTES) this.#closeBlock();
    }
  }

  #closeBlock(): void {
    if (this.#block !== undefined) this.#parts.push(this.#block.subarray(0, this.#used));
    this.#block = undefined;
    this.#used = 0;
  }

  #take(): Buffer {
    this.#closeBlock();
    const [first, ...others] = this.#parts.splice(0);
    this.#bytes = 0;
    if (first === undefined) return Buffer.alloc(0);
    return others.length === 0 ? first : Buffer.concat([first, ...others]);
  }
}
