import type { ServerResponse } from 'node:http';

/** Called according to how fast the caller reads. */
export interface ReplyListener {
  /** The caller does not read at present. */
  onFull(): void;
  /** The caller has read what was written. */
  onDrained(): void;
  /** The caller has read nothing for too long. */
  onStalled(): void;
}

/** Up to this size, copying a body to its headers costs less than a second part of a write. */
const SHORT_BYTES = 16 * 1024;

/**
 * Writes an answer to the caller. The headers wait for the first part of the body until the event loop continues, since
 * two writes are most of the cost of a short answer; then they are sent alone, since an event stream may pause for
 * long.
 */
export class Reply {
  readonly #response: ServerResponse;
  readonly #idleMs: number;
  readonly #listener: ReplyListener;
  /** Set while the head waits for the first part of the body. */
  #headPending: NodeJS.Immediate | undefined;
  /** The first part of the body, if it has come while the head waits. */
  #firstPart: Buffer | undefined;
  /** Runs while the caller has yet to read what was written. */
  #stallTimer: NodeJS.Timeout | undefined;

  /** `idleMs`: how long the caller may read nothing of what is written. */
  constructor(response: ServerResponse, idleMs: number, listener: ReplyListener) {
    this.#response = response;
    this.#idleMs = idleMs;
    this.#listener = listener;
  }

  /** Whether the caller has yet to read what was written. */
  get isBlocked(): boolean {
    return this.#stallTimer !== undefined;
  }

  begin(status: number, headers: string[]): void {
    this.#response.sendDate = false;
    this.#response.writeHead(status, headers);
    this.#headPending = setImmediate(() => this.#flushHead());
  }

  write(bytes: Buffer): void {
    if (this.#headPending !== undefined && this.#firstPart === undefined) {
      this.#firstPart = bytes;
      return;
    }
    if (this.#headPending !== undefined) this.#flushHead();
    this.#writePart(bytes);
  }

  /** Writes the last part; `done` is called when the caller has read everything. */
  end(rest: Buffer, done: () => void): void {
    const response = this.#response;
    clearImmediate(this.#headPending);
    const last = this.#firstPart === undefined ? rest : Buffer.concat([this.#firstPart, rest]);
    if (last.length <= SHORT_BYTES) response.end(last.toString('latin1'), 'latin1');
    else response.end(last);
    if (response.writableFinished) done();
    else {
      this.#stallTimer ??= this.#startStallTimer();
      response.once('finish', done);
    }
  }

  /** Stops all timers; the response is left as it is. */
  abandon(): void {
    clearImmediate(this.#headPending);
    clearTimeout(this.#stallTimer);
    this.#headPending = undefined;
  }

  #flushHead(): void {
    clearImmediate(this.#headPending);
    this.#headPending = undefined;
    const first = this.#firstPart;
    this.#firstPart = undefined;
    if (first === undefined) this.#response.flushHeaders();
    else this.#writePart(first);
  }

  /** Tells the listener when the caller does not read, so that no more is fetched from the host. */
  #writePart(bytes: Buffer): void {
    if (this.#response.write(bytes) || this.#stallTimer !== undefined) return;
    this.#stallTimer = this.#startStallTimer();
    this.#listener.onFull();
    this.#response.once('drain', () => {
      clearTimeout(this.#stallTimer);
      this.#stallTimer = undefined;
      this.#listener.onDrained();
    });
  }

  #startStallTimer(): NodeJS.Timeout {
    return setTimeout(() => this.#listener.onStalled(), this.#idleMs);
  }
}
