import { IncomingMessage } from 'node:http';
import { PIECE_COST } from '@space/broker-kit';

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
  #small = 0;
  #smallTaken = 0;
  #whole = false;
  #wake: (() => void) | undefined;
  /** Set from a small piece on until the rest of its segment has been parsed, whose callbacks each run what was awaited. */
  #segment: NodeJS.Immediate | undefined;

  /** The number of small pieces in the parts that the reader of the body has got. */
  get smallPieces(): number {
    return this.#smallTaken;
  }

  /** Called by Node's parser with each piece, and with null at the end; false stops it. */
  override push(piece: unknown, encoding?: BufferEncoding): boolean {
    if (!Buffer.isBuffer(piece)) {
      this.#whole = piece === null;
      this.#endSegment();
      return super.push(piece, encoding);
    }
    this.#bytes += piece.length;
    if (piece.length >= LARGE_BYTES) {
      this.#closeBlock();
      this.#parts.push(piece);
      this.#wake?.();
    } else {
      this.#small += 1;
      this.#gather(piece);
      this.#segment ??= setImmediate(() => this.#endSegment());
    }
    return this.#bytes + this.#small * PIECE_COST < MOST_BYTES;
  }

  /**
   * The body for one reader, in the parts in which it arrives, but the small pieces of a segment together: each part is encrypted
   * and written by itself. @throws if it is incomplete
   */
  async *body(): AsyncGenerator<Buffer> {
    for (;;) {
      if (this.#bytes > 0 && this.#segment === undefined) yield this.#take();
      // Nobody reads it as a stream, but its connection must see its end.
      else if (this.#whole && this.#bytes === 0) return void this.resume();
      else if (this.destroyed) throw new Error('the body was cut short');
      else {
        // Continues to read the connection, but no second segment in one round of the event loop.
        if (this.#segment === undefined) this._read(0);
        const { promise, resolve } = Promise.withResolvers<void>();
        this.#wake = resolve;
        await promise;
        this.#wake = undefined;
      }
    }
  }

  #endSegment(): void {
    clearImmediate(this.#segment);
    this.#segment = undefined;
    this.#wake?.();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#endSegment();
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
    this.#smallTaken += this.#small;
    [this.#bytes, this.#small] = [0, 0];
    if (first === undefined) return Buffer.alloc(0);
    return others.length === 0 ? first : Buffer.concat([first, ...others]);
  }
}
