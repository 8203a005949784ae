import type { TLSSocket } from 'node:tls';
import { type Indexed, IndexedSet } from '@space/broker-kit';
import { Client, type Dispatcher } from 'undici';

/** A request on its way to a host. */
export interface Visitor extends Dispatcher.DispatchHandler {
  /** Nobody waits for its answer any more. */
  readonly over: boolean;
  /** Whether its connection has served others: the host may be about to end it, and means nothing by that. */
  reused: boolean;
  onResponseError(upstream: unknown, error: Error): void;
}

export interface ConnectionOptions {
  readonly origin: string;
  /** A connection on which nothing was said yet; bounded in time. */
  readonly open: () => Promise<TLSSocket>;
  /** So many at once. */
  readonly most: number;
  readonly client: Omit<Client.Options, 'connect' | 'pipelining' | 'allowH2'>;
  /** How long one that was never used is kept. */
  readonly keepMs: number;
  /** So long a request waits for one of the others to be done before a connection is opened for it. */
  readonly patienceMs: number;
}

/** A connection that ended before the request was written to it. */
export class NotSent extends Error {
  constructor(options?: { cause: unknown }) {
    super('the connection ended before it was used', options);
    this.name = 'NotSent';
  }
}

/** At once, so that a burst costs this thread a few handshakes and not one for each of its requests. */
const MOST_OPENING = 8;

interface Connection extends Indexed {
  readonly client: Client;
  /** undici takes it with the first request, and not before. */
  readonly socket: TLSSocket;
}

interface Waiting {
  readonly request: Dispatcher.DispatchOptions;
  readonly visitor: Visitor;
  readonly since: number;
}

/**
 * Connections to one host. A request is bound to one that is open and free, never to one that is still to be opened:
 * those that piled up while this process stood still are served by what is there, and what cannot be opened holds
 * nobody up. The last that was used is the next that is, so that those that a burst has left grow old.
 */
export class Connections {
  readonly #options: ConnectionOptions;
  readonly #idle: Connection[] = [];
  readonly #busy = new IndexedSet<Connection>();
  /** Opened for somebody who was served by another. */
  readonly #spare = new Map<TLSSocket, () => void>();
  readonly #waiting: Waiting[] = [];
  #opening = 0;
  #patience: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  get inUse(): boolean {
    return this.#busy.size + this.#waiting.length + this.#opening > 0;
  }

  dispatch(request: Dispatcher.DispatchOptions, visitor: Visitor): void {
    if (this.#closed) return void visitor.onResponseError(undefined, new NotSent());
    const waiting = { request, visitor, since: performance.now() };
    const connection = this.#idle.pop();
    if (connection !== undefined) return void this.#give(connection, waiting, true);
    this.#waiting.push(waiting);
    const [spare] = this.#spare;
    if (spare === undefined) return void this.#openMore();
    const [socket, release] = spare;
    release();
    this.#arrived(socket);
  }

  /** Ends everything; who waits is told. */
  async destroy(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#patience);
    for (const socket of this.#spare.keys()) socket.destroy();
    for (const { visitor } of this.#waiting.splice(0)) visitor.onResponseError(undefined, new NotSent());
    await Promise.all(
      [...this.#idle.splice(0), ...this.#busy.snapshot()].map(({ client }) => client.destroy()),
    );
  }

  #give(connection: Connection, { request, visitor }: Waiting, reused: boolean): void {
    this.#busy.add(connection);
    visitor.reused = reused;
    connection.client.dispatch(request, visitor);
    // One that cannot be sent at all was told so at once, and undici says nothing of the connection after that.
    if (visitor.over) this.#discard(connection);
  }

  /** Who has waited longest, and still does. */
  #next(): Waiting | undefined {
    let next = this.#waiting.shift();
    while (next?.visitor.over === true) next = this.#waiting.shift();
    return next;
  }

  #free(connection: Connection): void {
    if (!this.#busy.delete(connection)) return;
    const next = this.#next();
    if (next === undefined) this.#idle.push(connection);
    else this.#give(connection, next, true);
  }

  /** What was not yet written to it is told so. */
  #discard(connection: Connection, cause?: unknown): void {
    const at = this.#idle.indexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
    this.#busy.delete(connection);
    void connection.client.destroy(new NotSent({ cause }));
    connection.socket.destroy();
    this.#openMore();
  }

  /** While others are open, one is opened only for a request whose patience is over; for so many it is. */
  #openMore(impatient = 0): void {
    if (this.#closed) return;
    while (this.#waiting[0]?.visitor.over === true) this.#waiting.shift();
    const waiting = this.#waiting.length;
    const room = Math.min(MOST_OPENING, this.#options.most - this.#busy.size);
    const wanted = Math.min(room, this.#busy.size === 0 ? waiting : impatient);
    while (this.#opening < wanted) void this.#open();
    if (this.#opening < Math.min(room, waiting))
      this.#patience ??= setTimeout(() => this.#lookAgain(), this.#options.patienceMs);
  }

  /** A timer is the first to speak in a process that stood still: what has come meanwhile is heard before. */
  async #lookAgain(): Promise<void> {
    for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve));
    this.#patience = undefined;
    const late = performance.now() - this.#options.patienceMs;
    // Who came first is first in the queue.
    const patient = this.#waiting.findIndex(({ since }) => since > late);
    this.#openMore(patient < 0 ? this.#waiting.length : patient);
  }

  async #open(): Promise<void> {
    this.#opening += 1;
    const last = this.#waiting.at(-1);
    const opened = await this.#options.open().catch((cause: unknown) => ({ cause }));
    this.#opening -= 1;
    if ('cause' in opened) this.#refused(opened.cause, last);
    else this.#arrived(opened);
    this.#openMore();
  }

  #arrived(socket: TLSSocket): void {
    if (this.#closed) return void socket.destroy();
    const next = this.#next();
    if (next === undefined) return void this.#keep(socket);
    let taken = false;
    const client = new Client(this.#options.origin, {
      ...this.#options.client,
      pipelining: 1,
      allowH2: false,
      connect: (_, done) => {
        // A second time would be after it has ended. undici expects an answer later than the question.
        const again = taken;
        taken = true;
        queueMicrotask(() => (again ? done(new NotSent(), null) : done(null, socket)));
      },
    });
    const connection = { client, socket, index: -1 };
    const discard = (_: URL, __: readonly Dispatcher[], error: Error) => this.#discard(connection, error);
    client
      .on('drain', () => this.#free(connection))
      .on('disconnect', discard)
      .on('connectionError', discard);
    this.#give(connection, next, false);
  }

  /** Until somebody needs it, the host ends it, says something unasked, or it is too old. */
  #keep(socket: TLSSocket): void {
    const end = () => socket.destroy();
    const old = setTimeout(end, this.#options.keepMs).unref();
    const release = () => {
      clearTimeout(old);
      this.#spare.delete(socket);
      socket.off('data', end).off('close', release).pause();
    };
    this.#spare.set(socket, release);
    socket.on('data', end).on('close', release);
  }

  /** One that could not be opened is one request's failure; the last of several, that of all who waited for them. */
  #refused(cause: unknown, last: Waiting | undefined): void {
    const error = cause instanceof Error ? cause : new NotSent({ cause });
    const none = this.#opening + this.#busy.size === 0;
    const behind = none && last !== undefined ? this.#waiting.indexOf(last) + 1 : 0;
    for (const { visitor } of this.#waiting.splice(0, Math.max(1, behind)))
      visitor.onResponseError(undefined, error);
  }
}
