import type { ServerResponse } from 'node:http';

/** What a reply tells of the caller that it goes to. */
export interface ReplyListener {
  /** It takes no more for now. */
  full(): void;
  /** It has taken what was written. */
  taken(): void;
  /** It takes nothing for too long. */
  stuck(): void;
}

/** Up to so many bytes, copying an answer to its head costs less than a second part of a write. */
const SHORT = 16 * 1024;

/**
 * An answer on its way to the caller. The head goes with the body's first part if that is there already, and before it if
 * not: an event stream may be silent for long. Two writes for a short answer are most of what it costs.
 */
export class Reply {
  readonly #response: ServerResponse;
  readonly #idleMs: number;
  readonly #listener: ReplyListener;
  /** While it is set, the head waits for the first part of the body, … */
  #silent: NodeJS.Immediate | undefined;
  /** … and this, when it has come, for the second. */
  #first: Buffer | undefined;
  /** Runs while it is the caller that everybody waits for. */
  #idle: NodeJS.Timeout | undefined;

  /** `idleMs`: how long the caller may take nothing of what is written. */
  constructor(response: ServerResponse, idleMs: number, listener: ReplyListener) {
    this.#response = response;
    this.#idleMs = idleMs;
    this.#listener = listener;
  }

  /** Whether the caller has yet to take what was written. */
  get waits(): boolean {
    return this.#idle !== undefined;
  }

  begin(status: number, headers: string[]): void {
    this.#response.sendDate = false;
    this.#response.writeHead(status, headers);
    this.#silent = setImmediate(() => this.#speak());
  }

  write(bytes: Buffer): void {
    if (this.#silent !== undefined && this.#first === undefined) {
      this.#first = bytes;
      return;
    }
    if (this.#silent !== undefined) this.#speak();
    this.#put(bytes);
  }

  /** The last of it; `done` is called when the caller has taken all. */
  end(rest: Buffer, done: () => void): void {
    const response = this.#response;
    clearImmediate(this.#silent);
    const last = this.#first === undefined ? rest : Buffer.concat([this.#first, rest]);
    if (last.length <= SHORT) response.end(last.toString('latin1'), 'latin1');
    else response.end(last);
    if (response.writableFinished) done();
    else {
      this.#idle ??= this.#patience();
      response.once('finish', done);
    }
  }

  /** Nothing more is done about it. */
  leave(): void {
    clearImmediate(this.#silent);
    clearTimeout(this.#idle);
    this.#silent = undefined;
  }

  #speak(): void {
    clearImmediate(this.#silent);
    this.#silent = undefined;
    const first = this.#first;
    this.#first = undefined;
    if (first === undefined) this.#response.flushHeaders();
    else this.#put(first);
  }

  /** What the caller does not take is not fetched; a caller that takes nothing for long is left. */
  #put(bytes: Buffer): void {
    if (this.#response.write(bytes) || this.#idle !== undefined) return;
    this.#idle = this.#patience();
    this.#listener.full();
    this.#response.once('drain', () => {
      clearTimeout(this.#idle);
      this.#idle = undefined;
      this.#listener.taken();
    });
  }

  #patience(): NodeJS.Timeout {
    return setTimeout(() => this.#listener.stuck(), this.#idleMs);
  }
}
