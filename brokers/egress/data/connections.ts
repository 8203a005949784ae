import type { TLSSocket } from 'node:tls';
import { type Indexed, IndexedSet } from '@space/broker-kit';
import { Client, type Dispatcher } from 'undici';
import { Problem } from '../core/problem.ts';

/** Handles the answer to one request, from the time at which it asks for a connection. */
export interface PendingRequest extends Dispatcher.DispatchHandler {
  /** Whether nobody waits for the answer any more. */
  readonly isSettled: boolean;
  /** Whether its connection has served other requests: the host may close such a connection at any moment. */
  reused: boolean;
  /** Bytes of the answer's body that have come. */
  readonly received: number;
  onResponseError(upstream: unknown, error: Error): void;
}

export interface ConnectionOptions {
  readonly origin: string;
  /** Opens a connection; fails after a limited time. */
  readonly open: () => Promise<TLSSocket>;
  /** The most connections at the same time. */
  readonly most: number;
  readonly client: Omit<Client.Options, 'connect' | 'pipelining' | 'allowH2'>;
  /** Milliseconds for which an unused connection is kept. */
  readonly keepMs: number;
  /** Milliseconds that a request waits for a busy connection before another one is opened for it. */
  readonly openDelayMs: number;
  /** Called for a connection that nobody uses, with what closes it; the result is called when it is used or closed. */
  readonly unused: (close: () => void) => () => void;
}

/** The connection ended before the request was written to it, so the request may be sent again. */
export class NotSent extends Error {
  constructor(options?: { cause: unknown }) {
    super('the connection ended before it was used', options);
    this.name = 'NotSent';
  }
}

/** The most concurrent handshakes, so that a burst does not cost this thread one for each of its requests. */
const MOST_OPENING = 8;

/**
 * Bytes of an answer that may be none of its body: heads, and what is read and not parsed yet; and so many for each byte of the
 * body, which may be a chunk with leading zeros in its length.
 */
const MOST_BESIDE = 256 * 1024;
const MOST_BESIDE_BYTE = 32;

interface Connection extends Indexed {
  readonly client: Client;
  /** undici takes the socket with the first request. */
  readonly socket: TLSSocket;
  /** Set while nobody uses it. */
  used: (() => void) | undefined;
  /** The request on it, and the bytes that were read before. */
  serving: { readonly pending: PendingRequest; readonly from: number } | undefined;
}

interface Waiting {
  readonly request: Dispatcher.DispatchOptions;
  readonly pending: PendingRequest;
  readonly since: number;
}

/**
 * Connections to one host. A request is bound to a connection that is open and free, never to one that is being opened:
 * requests that piled up while this process was stalled are served by the open connections, and a connection that cannot
 * be opened delays no request. The connection that was used last is used next, so that those of a burst grow old.
 */
export class Connections {
  readonly #options: ConnectionOptions;
  readonly #idle: Connection[] = [];
  readonly #busy = new IndexedSet<Connection>();
  /**
   * Connections that were opened for a request which another connection has served, each with a function that takes it
   * from here.
   */
  readonly #spare = new Map<TLSSocket, () => void>();
  #waiting: Waiting[] = [];
  #opening = 0;
  #openTimer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  get inUse(): boolean {
    return this.#busy.size + this.#waiting.length + this.#opening > 0;
  }

  dispatch(request: Dispatcher.DispatchOptions, pending: PendingRequest): void {
    if (this.#closed) return void pending.onResponseError(undefined, new NotSent());
    const waiting = { request, pending, since: performance.now() };
    const connection = this.#idle.pop();
    if (connection !== undefined) return void this.#assign(connection, waiting, true);
    this.#waiting.push(waiting);
    const [spare] = this.#spare;
    if (spare === undefined) return void this.#openMore();
    const [socket, release] = spare;
    release();
    this.#onOpened(socket);
  }

  /** Closes every connection; requests that wait get an error. */
  async destroy(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#openTimer);
    for (const socket of this.#spare.keys()) socket.destroy();
    for (const { used } of this.#idle) used?.();
    for (const { pending } of this.#waiting.splice(0)) pending.onResponseError(undefined, new NotSent());
    await Promise.all(
      [...this.#idle.splice(0), ...this.#busy.snapshot()].map(({ client }) => client.destroy()),
    );
  }

  #assign(connection: Connection, { request, pending }: Waiting, reused: boolean): void {
    connection.used?.();
    connection.used = undefined;
    connection.serving = { pending, from: connection.socket.bytesRead };
    this.#busy.add(connection);
    pending.reused = reused;
    connection.client.dispatch(request, pending);
    // undici refuses an invalid request at once, and emits no event of the connection after that.
    if (pending.isSettled) this.#discard(connection);
  }

  /** The request that has waited longest and is still wanted. */
  #next(): Waiting | undefined {
    let next = this.#waiting.shift();
    while (next?.pending.isSettled === true) next = this.#waiting.shift();
    return next;
  }

  #onFree(connection: Connection): void {
    if (!this.#busy.delete(connection)) return;
    connection.serving = undefined;
    const next = this.#next();
    if (next !== undefined) return void this.#assign(connection, next, true);
    this.#idle.push(connection);
    connection.used = this.#options.unused(() => this.#discard(connection));
  }

  /** Closes a connection; the request on it gets `NotSent` if it was not written yet. */
  #discard(connection: Connection, cause?: unknown): void {
    const at = this.#idle.indexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
    connection.used?.();
    this.#busy.delete(connection);
    void connection.client.destroy(new NotSent({ cause }));
    connection.socket.destroy();
    this.#openMore();
  }

  /** Opens connections for the `overdue` requests at the head of the queue, or for all while none is busy. */
  #openMore(overdue = 0): void {
    if (this.#closed) return;
    // Behind one that waits, those that were given up would be kept with their bodies, and as many as callers like.
    this.#waiting = this.#waiting.filter(({ pending }) => !pending.isSettled);
    const waiting = this.#waiting.length;
    const room = Math.min(MOST_OPENING, this.#options.most - this.#busy.size);
    const wanted = Math.min(room, waiting, this.#busy.size === 0 ? waiting : overdue);
    while (this.#opening < wanted) void this.#open();
    if (this.#opening < Math.min(room, waiting))
      this.#openTimer ??= setTimeout(() => this.#openForOverdue(), this.#options.openDelayMs);
  }

  /** After a stall, timers run before sockets are read, so what has arrived meanwhile is handled first. */
  async #openForOverdue(): Promise<void> {
    for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve));
    this.#openTimer = undefined;
    const deadline = performance.now() - this.#options.openDelayMs;
    // The queue is in the order of arrival.
    const inTime = this.#waiting.findIndex(({ since }) => since > deadline);
    this.#openMore(inTime < 0 ? this.#waiting.length : inTime);
  }

  async #open(): Promise<void> {
    this.#opening += 1;
    const last = this.#waiting.at(-1);
    const opened = await this.#options.open().catch((cause: unknown) => ({ cause }));
    this.#opening -= 1;
    if ('cause' in opened) this.#onOpenFailed(opened.cause, last);
    else this.#onOpened(opened);
    this.#openMore();
  }

  #onOpened(socket: TLSSocket): void {
    if (this.#closed) return void socket.destroy();
    const next = this.#next();
    if (next === undefined) return void this.#keepSpare(socket);
    let taken = false;
    const client = new Client(this.#options.origin, {
      ...this.#options.client,
      pipelining: 1,
      allowH2: false,
      connect: (_, done) => {
        // undici asks a second time only after the socket has ended, and expects an asynchronous callback.
        const again = taken;
        taken = true;
        queueMicrotask(() => (again ? done(new NotSent(), null) : done(null, socket)));
      },
    });
    const connection: Connection = { client, socket, index: -1, used: undefined, serving: undefined };
    const discard = (_: URL, __: readonly Dispatcher[], error: Error) => this.#discard(connection, error);
    client
      .on('connect', () => socket.on('readable', () => this.#judge(connection)))
      .on('drain', () => this.#onFree(connection))
      .on('disconnect', discard)
      .on('connectionError', discard);
    this.#assign(connection, next, false);
  }

  /**
   * Ends a connection whose host sends almost only what is of no body, such as extensions of chunks: that is parsed as fast as it
   * comes, in nobody's turn.
   */
  #judge({ socket, serving }: Connection): void {
    if (serving === undefined) return;
    const { pending, from } = serving;
    if (socket.bytesRead - from > MOST_BESIDE + MOST_BESIDE_BYTE * pending.received)
      socket.destroy(new Problem('upstream_failed'));
  }

  /**
   * Keeps a connection until a request needs it, the host ends it or sends data without a request, or it is too old.
   */
  #keepSpare(socket: TLSSocket): void {
    const end = () => socket.destroy();
    const old = setTimeout(end, this.#options.keepMs).unref();
    let used: (() => void) | undefined;
    const release = () => {
      clearTimeout(old);
      used?.();
      this.#spare.delete(socket);
      socket.off('data', end).off('close', release).pause();
    };
    this.#spare.set(socket, release);
    socket.on('data', end).on('close', release);
    used = this.#options.unused(end);
  }

  /** Fails one request; if no connection is left or being opened, all that waited when this attempt began. */
  #onOpenFailed(cause: unknown, last: Waiting | undefined): void {
    const error = cause instanceof Error ? cause : new NotSent({ cause });
    const none = this.#opening + this.#busy.size === 0;
    const behind = none && last !== undefined ? this.#waiting.indexOf(last) + 1 : 0;
    for (const { pending } of this.#waiting.splice(0, Math.max(1, behind)))
      pending.onResponseError(undefined, error);
  }
}
