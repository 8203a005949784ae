import { IncomingMessage } from 'node:http';

/** Smaller pieces are combined in blocks. */
const LEAST_BYTES = 1024;
const BLOCK_BYTES = 4 * 1024;
const NOTHING = Buffer.alloc(0);

/** Milliseconds that Node takes to parse a small piece; it parses all of a segment in a row, before anybody's turn. */
export const PIECE_MS = 0.0007;
/** A small piece takes as much time to parse as copying so many bytes. */
export const PIECE_COST = 64;

/**
 * Combines small pieces, so that waiting data takes no more memory than it has bytes: a piece is an object of about two
 * hundred bytes, and a sender can make every byte a piece. Large pieces pass unchanged, in order.
 */
export class SmallPieces {
  readonly #pass: (piece: Buffer) => boolean;
  /** The bytes from `from` to `to` have not passed yet. */
  #block: Buffer = NOTHING;
  #from = 0;
  #to = 0;

  /** `pass` returns whether more may be sent at once. */
  constructor(pass: (piece: Buffer) => boolean) {
    this.#pass = pass;
  }

  /** Returns what `pass` returned for the last piece, and true if none has passed. */
  add(piece: Buffer): boolean {
    if (piece.length >= LEAST_BYTES) {
      this.flush();
      return this.#pass(piece);
    }
    let more = true;
    for (let rest = piece; rest.length > 0; ) {
      if (this.#block.length === 0) this.#block = Buffer.allocUnsafeSlow(BLOCK_BYTES);
      const copied = rest.copy(this.#block, this.#to);
      this.#to += copied;
      rest = rest.subarray(copied);
      if (this.#to === BLOCK_BYTES) more = this.flush();
    }
    return more;
  }

  /** Passes the rest. */
  flush(): boolean {
    if (this.#from === this.#to) return true;
    const piece = this.#block.subarray(this.#from, this.#to);
    this.#from = this.#to;
    // The receiver of a whole block may free it.
    if (this.#to === BLOCK_BYTES) [this.#block, this.#from, this.#to] = [NOTHING, 0, 0];
    return this.#pass(piece);
  }
}

/** This many pieces pass unchanged: bodies of usual clients have fewer. */
const FIRST_PIECES = 16;

/** A request whose waiting body takes no more memory than it has bytes, however many chunks it has. */
export class GatheredRequest extends IncomingMessage {
  #pieces: SmallPieces | undefined;
  #small = 0;
  #later: NodeJS.Immediate | undefined;
  #held = false;
  #wanted = false;

  /** The number of small pieces that have been parsed. */
  get smallPieces(): number {
    return this.#small;
  }

  /** While held, no further segment of the body is parsed. Otherwise Node goes on until a number of bytes wait, also in a paused one. */
  set held(held: boolean) {
    this.#held = held;
    if (held || !this.#wanted) return;
    this.#wanted = false;
    super._read(0);
  }

  override _read(size: number): void {
    if (this.#held) this.#wanted = true;
    else super._read(size);
  }

  /** Called by Node's parser with each piece, and with null at the end; returning false stops it. */
  override push(piece: unknown, encoding?: BufferEncoding): boolean {
    if (Buffer.isBuffer(piece) && piece.length < LEAST_BYTES) this.#small += 1;
    if (this.#small <= FIRST_PIECES) return super.push(piece, encoding) && !this.#held;
    this.#pieces ??= new SmallPieces((whole) => super.push(whole));
    if (!Buffer.isBuffer(piece)) {
      this.#flush();
      return super.push(piece, encoding);
    }
    this.#later ??= setImmediate(() => this.#flush());
    return this.#pieces.add(piece) && this.readableLength < this.readableHighWaterMark && !this.#held;
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    clearImmediate(this.#later);
    super._destroy(error, done);
  }

  #flush(): void {
    clearImmediate(this.#later);
    this.#later = undefined;
    this.#pieces?.flush();
  }
}
