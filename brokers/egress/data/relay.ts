import type { ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { rawHeadersOf } from '../core/credentials.ts';
import { isScannable, responseHeaders } from '../core/headers.ts';
import { Problem } from '../core/problem.ts';
import type { Scrubber } from '../core/scrub.ts';
import { type Connections, NotSent, type Visitor } from './connections.ts';
import type { Ending } from './ending.ts';
import { isLost, upstreamProblem } from './lost.ts';
import { Promises } from './promises.ts';
import type { Line } from './record.ts';
import { Reply } from './reply.ts';

/** A request to the host, its body whole or as it flows. */
export interface Outgoing {
  readonly method: Dispatcher.HttpMethod;
  readonly path: string;
  readonly headers: string[];
  readonly body: Buffer | Readable | null;
}

/** Who gets the answer, and what is made of it on the way. */
export interface Receiver {
  readonly response: ServerResponse;
  readonly scrubber: Scrubber;
  readonly line: Line;
  readonly ending: Ending;
  /** How long the caller may take nothing of what is written, and the host write nothing of what it has begun. */
  readonly idleMs: number;
  /** Does a piece of work when it is the Capsule's turn. */
  readonly inTurn: (act: () => void) => void;
  /** How long the host may take nothing of a request, not begin with its answer, or promise one. */
  readonly answerMs: number;
}

/**
 * Sends a request and gives its answer back as it comes, scrubbed. Resolves when all of it is written.
 * @throws the reason of the ending, `response_unscannable`, or what became of the connection
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
      // What is left of it is nobody's.
      if (body !== null && 'destroy' in body) body.destroy();
      reject(upstreamProblem(error));
    };
    // That it broke is told by undici; unheard, it would end the process.
    if (body !== null && 'destroy' in body) body.on('error', () => undefined);
    const handler = new Relay(receiver, settle, {
      wholeBytes: Buffer.isBuffer(body) ? body.length : 0,
      repeatable: body === null && (method === 'GET' || method === 'HEAD'),
      again: () => upstream.dispatch(outgoing, handler),
    });
    receiver.ending.tell((reason) => handler.end(reason));
    upstream.dispatch(outgoing, handler);
  });
}

interface Errand {
  /** Of a body that is sent at once; one that flows is counted as it does. */
  readonly wholeBytes: number;
  /** Whether it may be sent twice. */
  readonly repeatable: boolean;
  readonly again: () => void;
}

/** So much of an answer is scrubbed as it comes; what follows, in pieces, when it is its Capsule's turn. */
const AT_ONCE = 4 * 1024;
/** Of any text it takes some 0.1 ms of the processor (`npm run bench -- egress-scrub`). */
const PIECE = 16 * 1024;

/** undici's own request() makes a stream of each answer; its chunks are as well written where they go. */
class Relay implements Visitor {
  reused = false;
  readonly #to: Receiver;
  readonly #errand: Errand;
  #settle: ((error?: unknown) => void) | undefined;
  #upstream: Dispatcher.DispatchController | undefined;
  #scrub: ReturnType<Scrubber['body']> | undefined;
  readonly #reply: Reply;
  /** What waits for the Capsule's turn. The host is not read meanwhile, so that it is little. */
  readonly #pieces: Buffer[] = [];
  #waits = false;
  #ended = false;
  /** For the host. Not undici's own: those of a request that is done outlive many collections of young objects. */
  #late: NodeJS.Timeout | undefined;
  #takenBytes = 0;
  #scrubbedBytes = 0;
  #heard = false;
  #repeated = false;
  readonly #promises: Promises;

  constructor(to: Receiver, settle: (error?: unknown) => void, errand: Errand) {
    this.#to = to;
    this.#settle = settle;
    this.#errand = errand;
    this.#promises = new Promises(to.answerMs);
    this.#reply = new Reply(to.response, to.idleMs, {
      full: () => this.#upstream?.pause(),
      taken: () => {
        this.#late?.refresh();
        this.#proceed();
      },
      stuck: () => to.ending.end(new Problem('request_timeout')),
    });
  }

  get over(): boolean {
    return this.#settle === undefined;
  }

  end(reason: Problem): void {
    this.#upstream?.abort(reason);
    this.#finish(reason);
  }

  onRequestStart(upstream: Dispatcher.DispatchController): void {
    this.#upstream = upstream;
    this.#await(this.#to.answerMs);
    // It may have waited for a connection until then.
    const { reason } = this.#to.ending;
    if (reason !== undefined) upstream.abort(reason);
  }

  onRequestSent(): void {
    const { line } = this.#to;
    line.bytesOut += this.#errand.wholeBytes;
    this.#takenBytes = line.bytesOut;
    this.#late?.refresh();
  }

  onResponseStarted(): void {
    this.#heard = true;
  }

  onResponseStart(upstream: Dispatcher.DispatchController, status: number): void {
    if (status < 200) {
      this.#promises.take();
      // Each gives the host time anew.
      return void this.#late?.refresh();
    }
    const { scrubber, line } = this.#to;
    line.upstreamStatus = status;
    const raw = rawHeadersOf((upstream.rawHeaders as readonly Buffer[]).map(latin1));
    if (!isScannable(status, raw)) throw new Problem('response_unscannable');
    line.status = status;
    this.#scrub = scrubber.body();
    this.#await(this.#to.idleMs);
    this.#reply.begin(status, responseHeaders(raw, scrubber));
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#late?.refresh();
    const now = this.#pieces.length > 0 ? 0 : Math.max(0, AT_ONCE - this.#scrubbedBytes);
    if (now > 0) this.#pass(chunk.subarray(0, now));
    for (let at = now; at < chunk.length; at += PIECE) this.#pieces.push(chunk.subarray(at, at + PIECE));
    if (this.#pieces.length > 0) this.#proceed();
  }

  /** A piece in its turn, the end when there is none any more, or else more of the host's. */
  #proceed(): void {
    if (this.#waits || this.#reply.waits || this.over) return;
    if (this.#pieces.length > 0) {
      this.#waits = true;
      this.#upstream?.pause();
      this.#to.inTurn(() => this.#takeTurn());
    } else if (this.#ended) this.#conclude();
    else this.#upstream?.resume();
  }

  #takeTurn(): void {
    this.#waits = false;
    if (this.over) return;
    try {
      const piece = this.#pieces.shift();
      if (piece !== undefined) this.#pass(piece);
      this.#late?.refresh();
      this.#proceed();
    } catch (error) {
      this.#upstream?.abort(error instanceof Error ? error : new Error('not scrubbed', { cause: error }));
      this.#finish(error);
    }
  }

  #pass(chunk: Buffer): void {
    this.#scrubbedBytes += chunk.length;
    const bytes = this.#scrub?.push(chunk);
    if (bytes === undefined || bytes.length === 0) return;
    this.#to.line.bytesIn += bytes.length;
    this.#reply.write(bytes);
  }

  onResponseEnd(): void {
    this.#ended = true;
    // A connection that ended while it was not read has given us all that was left of it.
    if (this.#pieces.length === 0) this.#conclude();
  }

  /** Its place is kept until the caller has taken all of it. */
  #conclude(): void {
    const { response, line } = this.#to;
    if (response.writableEnded) return;
    const rest = this.#scrub?.end() ?? NOTHING;
    line.bytesIn += rest.length;
    this.#reply.end(rest, () => this.#finish());
  }

  onResponseError(_: unknown, error: Error): void {
    if (this.over || this.#repeated || !this.#mayRepeat(error)) return void this.#finish(error);
    this.#repeated = true;
    this.#upstream = undefined;
    this.#errand.again();
  }

  /** A connection that a host ends when it has been idle for long takes what was sent at that moment with it. */
  #mayRepeat(error: Error): boolean {
    if (error instanceof NotSent) return true;
    return this.#errand.repeatable && this.reused && !this.#heard && isLost(error);
  }

  #await(ms: number): void {
    clearTimeout(this.#late);
    this.#late = setTimeout(() => {
      const { bytesOut } = this.#to.line;
      // It takes what is sent to it, or the caller does not take what it has sent.
      if (bytesOut === this.#takenBytes && !this.#reply.waits)
        return this.#to.ending.end(new Problem('upstream_timeout'));
      this.#takenBytes = bytesOut;
      this.#late?.refresh();
    }, ms);
  }

  #finish(error?: unknown): void {
    this.#reply.leave();
    clearTimeout(this.#late);
    this.#settle?.(error);
    this.#settle = undefined;
  }
}

const NOTHING = Buffer.alloc(0);
const latin1 = (bytes: Buffer): string => bytes.toString('latin1');
