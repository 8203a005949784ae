import { Readable, type Writable } from 'node:stream';
import { free, ServiceError } from '@space/broker-kit';
import { type Dispatcher, errors } from 'undici';
import { S3Error } from './errors.ts';
import type { InTurn } from './sinks.ts';

/** Status and headers of an answer. */
export interface Head {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Returns the sink of an answer's body, given its headers. It is a callback, so that a caller which holds a slot or a
 * grant during a request holds it until the last byte was consumed.
 */
export type SinkFor = (head: Head) => Writable;

/** Bodies take turns between Capsules, if there are several. */
export interface Passing {
  /** Whether other Capsules have requests. */
  isShared(): boolean;
  readonly inTurn: InTurn;
}

/** What sends a request: a pool of connections, or one connection. */
export type Sends = Pick<Dispatcher, 'dispatch'>;

interface Sent {
  readonly request: Dispatcher.DispatchOptions;
  readonly signal: AbortSignal | undefined;
  readonly patience?: Patience;
  /** Passes a long answer on in turns; without it, immediately. */
  readonly passing?: Passing | undefined;
}

/**
 * Milliseconds that a request may wait for a connection, for its answer, and for each next piece of it. A connection
 * must be established in 5 s, so a longer wait is for other requests.
 */
export interface Patience {
  readonly queueMs: number;
  readonly headMs: number;
  readonly pieceMs: number;
  /** Set if all pieces together have the time of one. */
  readonly together?: true;
}

export const PATIENCE: Patience = { queueMs: 10_000, headMs: 30_000, pieceMs: 60_000 };

/** Bytes of a body that are passed on immediately, so that short ones do not wait for a turn. */
export const AT_ONCE = 64 * 1024;

/** Informational answers (1xx) of one request: a server can send them without end, and nothing slows the parser down. */
const MOST_INFORMATIONAL = 32;
/**
 * Pieces of an answer that may have any length. With more, they must have so many bytes on average: a server can make every byte a
 * chunk, each of which costs as much as thousands of bytes do.
 */
const SMALL_PIECES = 1_024;
const PIECE_BYTES = 64;
/** undici's own timers live for a second after their use, and so become old objects, two for each request. */
const UNTIMED = { headersTimeout: 0, bodyTimeout: 0 };

/**
 * Sends a request, and its answer's body to the sink with back-pressure; resolves when all of it was consumed. All
 * requests use this function. undici handles an abort only when it has a connection for the request, which may never
 * happen, so that deadline and abort end the wait here, and the request is dropped in its turn. It handles only the
 * body, since undici's own `stream()` does more for each request. A sink must copy what it keeps, since a consumed
 * piece is freed.
 */
export function relay(dispatcher: Sends, sent: Sent, sinkFor: SinkFor): Promise<void> {
  return new Promise((resolve, reject) => new Relay(sent, sinkFor, { resolve, reject }).start(dispatcher));
}

interface Outcome {
  readonly resolve: () => void;
  readonly reject: (reason: Error) => void;
}

/** One request. undici calls the methods that begin with `on`, in their order here. */
class Relay implements Dispatcher.DispatchHandler {
  readonly #sent: Sent;
  readonly #sinkFor: SinkFor;
  readonly #outcome: Outcome;
  readonly #body: Readable | undefined;
  /** Pieces that wait for their turn; they are few, since the upstream is not read meanwhile. */
  readonly #pieces: Buffer[] = [];
  #controller: Dispatcher.DispatchController | undefined;
  #sink: Writable | undefined;
  #failure: { readonly reason: Error } | undefined;
  #late: NodeJS.Timeout | undefined;
  /** Whether the request's body is being sent. */
  #sending = false;
  #informational = 0;
  /** Pieces and bytes of the answer that have come. */
  #count = 0;
  #bytes = 0;
  /** Bytes of the answer that the sink was given. */
  #passed = 0;
  /** Whether a requested turn has not come yet. */
  #waits = false;
  /** Whether the upstream has sent its whole answer. */
  #ended = false;

  constructor(sent: Sent, sinkFor: SinkFor, outcome: Outcome) {
    this.#sent = sent;
    this.#sinkFor = sinkFor;
    this.#outcome = outcome;
    this.#body = sent.request.body instanceof Readable ? sent.request.body : undefined;
  }

  start(dispatcher: Sends): void {
    const { request, signal } = this.#sent;
    if (signal?.aborted) return void this.#fail(signal.reason);
    signal?.addEventListener('abort', this.#onAbort);
    this.#allow(this.#patience.queueMs, noConnection);
    dispatcher.dispatch({ ...request, ...UNTIMED }, this);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#failure !== undefined) return void controller.abort(this.#failure.reason);
    this.#sending = this.#body !== undefined;
    this.#allow(this.#patience.headMs, () => new errors.HeadersTimeoutError());
  }

  onBodySent(): void {
    this.#late?.refresh();
  }

  onRequestSent(): void {
    this.#sending = false;
    this.#late?.refresh();
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: Readonly<Record<string, string | string[] | undefined>>,
  ): void {
    if (status < 200) return void this.#countInformational();
    this.#allow(this.#patience.pieceMs, () => new errors.BodyTimeoutError());
    const sink = this.#sinkFor({ status, headers: single(headers) });
    this.#sink = sink;
    sink
      .on('drain', () => {
        this.#goOn();
        this.#proceed();
      })
      .on('error', (error) => this.#fail(error))
      .on('close', () => this.#onClose(sink));
    if (sink.writableNeedDrain) controller.pause();
  }

  /** @throws if there are too many, which ends the connection */
  #countInformational(): void {
    this.#informational += 1;
    if (this.#informational > MOST_INFORMATIONAL)
      throw new errors.HeadersOverflowError('informational answers without end');
  }

  onResponseData(controller: Dispatcher.DispatchController, piece: Buffer): void {
    // When reading goes on, undici's parser tells of what has come meanwhile, also if that is nothing.
    if (piece.length === 0) return;
    this.#goOn();
    this.#count += 1;
    this.#bytes += piece.length;
    if (this.#bytes < (this.#count - SMALL_PIECES) * PIECE_BYTES)
      throw new S3Error('answered', 200, 'PiecesTooSmall');
    const isAtOnce = this.#passed < AT_ONCE || this.#sent.passing?.isShared() !== true;
    if (this.#pieces.length === 0 && isAtOnce) {
      if (!this.#pass(piece)) controller.pause();
      return;
    }
    this.#pieces.push(piece);
    controller.pause();
    this.#proceed();
  }

  onResponseEnd(): void {
    clearTimeout(this.#late);
    this.#late = undefined;
    this.#ended = true;
    if (this.#pieces.length === 0) this.#sink?.end();
  }

  onResponseError(_: unknown, error: Error): void {
    this.#fail(error);
  }

  /** Gives the sink a piece; returns whether more may follow at once. */
  #pass(piece: Buffer): boolean {
    this.#passed += piece.length;
    return this.#sink?.write(piece, (error) => error ?? free(piece)) !== false;
  }

  /** Continues with the next piece in its turn, with the end if there is none, or with reading the upstream. */
  #proceed(): void {
    if (this.#waits || this.#failure !== undefined || this.#sink?.writableNeedDrain) return;
    const { passing } = this.#sent;
    if (this.#pieces.length > 0 && passing !== undefined) {
      this.#waits = true;
      passing.inTurn(() => this.#passNext()).catch((error: Error) => this.#fail(error));
    } else if (this.#ended) this.#sink?.end();
    else this.#controller?.resume();
  }

  #passNext(): void {
    this.#waits = false;
    const piece = this.#pieces.shift();
    if (this.#failure !== undefined || piece === undefined) return;
    this.#goOn();
    this.#pass(piece);
    this.#proceed();
  }

  /** Sets the deadline of the upstream, until it sends something. */
  #allow(ms: number, error: () => Error): void {
    clearTimeout(this.#late);
    this.#late = setTimeout(() => (this.#isOurTurn() ? this.#late?.refresh() : this.#fail(error())), ms);
  }

  /** Begins the time of the next piece, unless all have one. */
  #goOn(): void {
    if (this.#patience.together !== true) this.#late?.refresh();
  }

  /** Whether the upstream waits for our side: for the reader of the answer, or for the request's body. */
  #isOurTurn(): boolean {
    if (this.#sink === undefined) return this.#sending && this.#body?.isPaused() === false;
    return this.#waits || this.#sink.writableNeedDrain;
  }

  #fail(reason: Error): void {
    if (this.#failure !== undefined) return;
    this.#failure = { reason };
    clearTimeout(this.#late);
    this.#sent.signal?.removeEventListener('abort', this.#onAbort);
    this.#outcome.reject(reason);
    this.#controller?.abort(reason);
    this.#sink?.destroy(reason);
    // Nobody reads the rest of it.
    this.#body?.destroy();
  }

  readonly #onAbort = () => this.#fail(this.#sent.signal?.reason);

  #onClose(sink: Writable): void {
    if (!sink.writableFinished) return void this.#fail(sink.errored ?? new Error('closed before the end'));
    this.#sent.signal?.removeEventListener('abort', this.#onAbort);
    this.#outcome.resolve();
  }

  get #patience(): Patience {
    return this.#sent.patience ?? PATIENCE;
  }
}

function noConnection(): ServiceError {
  return new ServiceError('unavailable', 'no connection to the upstream was free', { retryAfter: 1 });
}

/** The headers, without those that occur twice. */
function single(headers: Readonly<Record<string, string | string[] | undefined>>): Record<string, string> {
  const result: Record<string, string> = {};
  for (const name of Object.keys(headers)) {
    const value = headers[name];
    if (typeof value === 'string') result[name] = value;
  }
  return result;
}
