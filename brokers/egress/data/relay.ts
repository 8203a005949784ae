import type { ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { rawHeadersOf } from '../core/credentials.ts';
import type { TagSeal } from '../core/entity-tags.ts';
import { isScannable, MOST_HEADERS, responseHeaders } from '../core/headers.ts';
import { Problem } from '../core/problem.ts';
import type { Scrubber } from '../core/scrub.ts';
import { type Connections, NotSent, type PendingRequest } from './connections.ts';
import type { Ending } from './ending.ts';
import { InformationalResponses } from './informational.ts';
import type { Line } from './record.ts';
import { Reply } from './reply.ts';
import { isConnectionLost, upstreamProblem } from './upstream-errors.ts';

/** A request to the host, with its body whole or as a stream. */
export interface Outgoing {
  readonly method: Dispatcher.HttpMethod;
  readonly path: string;
  readonly headers: string[];
  readonly body: Buffer | Readable | null;
}

/** Where the answer is sent, and what is done with it before. */
export interface Receiver {
  readonly response: ServerResponse;
  readonly scrubber: Scrubber;
  readonly sealTag: TagSeal['seal'];
  readonly line: Line;
  readonly ending: Ending;
  /** Milliseconds for which the caller may read nothing, and for which the host may pause within its answer. */
  readonly idleMs: number;
  /** Runs a piece of work in the Capsule's turn. */
  readonly inTurn: (act: () => void) => void;
  /** Counts what is kept while the caller reads nothing; the result is called when it reads. */
  readonly stalled: () => () => void;
  /**
   * Milliseconds for which the host may read nothing of the request, or delay its answer, also by informational ones.
   */
  readonly answerMs: number;
}

/**
 * Sends a request and returns its answer, scrubbed, while it arrives. Resolves when all of it is written. @throws the
 * reason of the ending, `response_unscannable`, or the error of the connection
 */
export function relay(
  upstream: Pick<Connections, 'dispatch'>,
  outgoing: Outgoing,
  receiver: Receiver,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const { body, method } = outgoing;
    const settle = (error?: unknown) => {
      if (error === undefined) return resolve();
      // Nobody reads the rest of the body.
      if (body !== null && 'destroy' in body) body.destroy();
      reject(upstreamProblem(error));
    };
    // undici reports that the body failed; without our own listener the event would end the process.
    if (body !== null && 'destroy' in body) body.on('error', () => undefined);
    const handler = new Relay(receiver, settle, {
      wholeBytes: Buffer.isBuffer(body) ? body.length : 0,
      repeatable: body === null && (method === 'GET' || method === 'HEAD'),
      retry: () => upstream.dispatch(outgoing, handler),
    });
    receiver.ending.onEnd((reason) => handler.end(reason));
    upstream.dispatch(outgoing, handler);
  });
}

interface RetryPolicy {
  /** The length of a body that is sent whole; a stream is counted as it flows. */
  readonly wholeBytes: number;
  /** Whether the request may be sent twice. */
  readonly repeatable: boolean;
  readonly retry: () => void;
}

/** The first bytes of an answer are scrubbed at once, the rest in pieces in the turns of its Capsule. */
const SCRUBBED_AT_ONCE_BYTES = 4 * 1024;
/** A piece counts as so many bytes at least: a host can send a chunk for every byte, each of which is scrubbed and written. */
const LEAST_PIECE_BYTES = 256;
/** Scrubbing a piece takes some 0.1 ms of the processor, whatever is in it (`npm run bench -- egress-scrub`). */
const PIECE_BYTES = 16 * 1024;

/** Handles the events of one answer. undici's own request() would make a stream of each, which costs more. */
class Relay implements PendingRequest {
  reused = false;
  received = 0;
  readonly #receiver: Receiver;
  readonly #policy: RetryPolicy;
  #settle: ((error?: unknown) => void) | undefined;
  #upstream: Dispatcher.DispatchController | undefined;
  #scrub: ReturnType<Scrubber['body']> | undefined;
  readonly #reply: Reply;
  /** Pieces that wait for the Capsule's turn. They are few, since the host is not read meanwhile. */
  readonly #pieces: Buffer[] = [];
  #awaitsTurn = false;
  #ended = false;
  /** The timer for the host. undici's own timers would outlive their requests by many collections of young objects. */
  #timeout: NodeJS.Timeout | undefined;
  #takenBytes = 0;
  #scrubbedBytes = 0;
  #answered = false;
  /** Set while the caller reads nothing. */
  #takenAgain: (() => void) | undefined;
  #retried = false;
  readonly #informational: InformationalResponses;

  constructor(receiver: Receiver, settle: (error?: unknown) => void, policy: RetryPolicy) {
    this.#receiver = receiver;
    this.#settle = settle;
    this.#policy = policy;
    this.#informational = new InformationalResponses(receiver.answerMs);
    this.#reply = new Reply(receiver.response, receiver.idleMs, {
      onFull: () => {
        this.#upstream?.pause();
        this.#takenAgain ??= receiver.stalled();
      },
      onDrained: () => {
        this.#endStall();
        this.#timeout?.refresh();
        this.#proceed();
      },
      onStalled: () => receiver.ending.end(new Problem('request_timeout')),
    });
  }

  get isSettled(): boolean {
    return this.#settle === undefined;
  }

  end(reason: Problem): void {
    this.#upstream?.abort(reason);
    this.#finish(reason);
  }

  onRequestStart(upstream: Dispatcher.DispatchController): void {
    this.#upstream = upstream;
    this.#startTimeout(this.#receiver.answerMs);
    // The request may have ended while it waited for a connection.
    const { reason } = this.#receiver.ending;
    if (reason !== undefined) upstream.abort(reason);
  }

  onRequestSent(): void {
    const { line } = this.#receiver;
    line.bytesOut += this.#policy.wholeBytes;
    this.#takenBytes = line.bytesOut;
    this.#timeout?.refresh();
  }

  onResponseStarted(): void {
    this.#answered = true;
  }

  onResponseStart(upstream: Dispatcher.DispatchController, status: number): void {
    const received = upstream.rawHeaders as readonly Buffer[];
    if (received.length > 2 * MOST_HEADERS) throw new Problem('response_unscannable');
    if (status < 200) {
      this.#informational.count();
      // Each informational response restarts the host's time.
      return void this.#timeout?.refresh();
    }
    const { scrubber, sealTag, line } = this.#receiver;
    line.upstreamStatus = status;
    const raw = rawHeadersOf(received.map(latin1));
    if (!isScannable(status, raw)) throw new Problem('response_unscannable');
    line.status = status;
    this.#scrub = scrubber.body();
    this.#startTimeout(this.#receiver.idleMs);
    this.#reply.begin(status, responseHeaders(raw, scrubber, sealTag));
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#timeout?.refresh();
    this.received += chunk.length;
    const now = this.#pieces.length > 0 ? 0 : Math.max(0, SCRUBBED_AT_ONCE_BYTES - this.#scrubbedBytes);
    if (now > 0) this.#forward(chunk.subarray(0, now));
    for (let at = now; at < chunk.length; at += PIECE_BYTES)
      this.#pieces.push(chunk.subarray(at, at + PIECE_BYTES));
    if (this.#pieces.length > 0) this.#proceed();
  }

  /** Forwards the next piece in its turn; without a piece it ends the answer, or reads more from the host. */
  #proceed(): void {
    if (this.#awaitsTurn || this.#reply.isBlocked || this.isSettled) return;
    if (this.#pieces.length > 0) {
      this.#awaitsTurn = true;
      this.#upstream?.pause();
      this.#receiver.inTurn(() => this.#takeTurn());
    } else if (this.#ended) this.#conclude();
    else this.#upstream?.resume();
  }

  #takeTurn(): void {
    this.#awaitsTurn = false;
    if (this.isSettled) return;
    try {
      const piece = this.#pieces.shift();
      if (piece !== undefined) this.#forward(piece);
      this.#timeout?.refresh();
      this.#proceed();
    } catch (error) {
      this.#upstream?.abort(error instanceof Error ? error : new Error('not scrubbed', { cause: error }));
      this.#finish(error);
    }
  }

  #forward(chunk: Buffer): void {
    this.#scrubbedBytes += Math.max(chunk.length, LEAST_PIECE_BYTES);
    const bytes = this.#scrub?.push(chunk);
    if (bytes === undefined || bytes.length === 0) return;
    this.#receiver.line.bytesIn += bytes.length;
    this.#reply.write(bytes);
  }

  onResponseEnd(): void {
    this.#ended = true;
    // With pieces left, the last of them ends the answer.
    if (this.#pieces.length === 0) this.#conclude();
  }

  /** Settles when the caller has read everything, so that the request counts until then. */
  #conclude(): void {
    const { response, line } = this.#receiver;
    if (response.writableEnded) return;
    const rest = this.#scrub?.end() ?? NOTHING;
    line.bytesIn += rest.length;
    this.#reply.end(rest, () => this.#finish());
  }

  onResponseError(_: unknown, error: Error): void {
    if (this.isSettled || this.#retried || !this.#mayRetry(error)) return void this.#finish(error);
    this.#retried = true;
    this.#upstream = undefined;
    this.#policy.retry();
  }

  /**
   * Whether a failed request may be sent again: a host may close an idle connection just when a request is sent on it.
   */
  #mayRetry(error: Error): boolean {
    if (error instanceof NotSent) return true;
    return this.#policy.repeatable && this.reused && !this.#answered && isConnectionLost(error);
  }

  #startTimeout(ms: number): void {
    clearTimeout(this.#timeout);
    this.#timeout = setTimeout(() => {
      const { bytesOut } = this.#receiver.line;
      // The host is not late while it reads the request, or while the caller does not read the answer.
      if (bytesOut === this.#takenBytes && !this.#reply.isBlocked)
        return this.#receiver.ending.end(new Problem('upstream_timeout'));
      this.#takenBytes = bytesOut;
      this.#timeout?.refresh();
    }, ms);
  }

  #endStall(): void {
    this.#takenAgain?.();
    this.#takenAgain = undefined;
  }

  #finish(error?: unknown): void {
    this.#endStall();
    this.#reply.abandon();
    clearTimeout(this.#timeout);
    this.#settle?.(error);
    this.#settle = undefined;
  }
}

const NOTHING = Buffer.alloc(0);
const latin1 = (bytes: Buffer): string => bytes.toString('latin1');
