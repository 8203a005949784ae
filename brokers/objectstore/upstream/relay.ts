import { Readable, type Writable } from 'node:stream';
import { ServiceError } from '@space/broker-kit';
import { type Dispatcher, errors } from 'undici';
import { free } from './pieces.ts';
import type { InTurn } from './sinks.ts';

/** The head of an answer. */
export interface Head {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
}

/** Bodies of answers take turns between Capsules, as soon as there are several. */
export interface Passing {
  /** Whether anybody else is there. */
  isShared(): boolean;
  readonly inTurn: InTurn;
}

interface Sent {
  readonly request: Dispatcher.DispatchOptions;
  readonly signal: AbortSignal | undefined;
  readonly patience?: Patience;
  /** How a long answer is passed on; without it, as it comes. */
  readonly passing?: Passing | undefined;
}

/**
 * How long a request may wait for a connection, and its upstream keep us waiting for its answer and for each next piece
 * of it; milliseconds. A connection has 5 s to come up, so who waits for longer waits for others.
 */
export interface Patience {
  readonly queueMs: number;
  readonly headMs: number;
  readonly pieceMs: number;
}

export const PATIENCE: Patience = { queueMs: 10_000, headMs: 30_000, pieceMs: 60_000 };

/** So much of an answer is passed on as it comes: what is short waits for nobody. */
const AT_ONCE = 64 * 1024;

/** undici's own timers stay for a second when they are done with, and so become old objects, two for each request. */
const UNTIMED = { headersTimeout: 0, bodyTimeout: 0 };

/**
 * Sends a request, and its answer's body where `into` says, with back-pressure; resolves when all of it was taken.
 * Everything that is asked goes this way. undici hears of an abort when it has a connection for the request, which may
 * be never: here deadline and abort end the wait for it, too, and the request is dropped when its turn comes.
 * There is nothing in it but the body: undici's own `stream()` does more around each.
 * Who takes a piece copies what it wants to keep: when it says that it has taken it, the piece is freed.
 */
export function relay(
  dispatcher: Dispatcher,
  { request, signal, patience = PATIENCE, passing }: Sent,
  into: (head: Head) => Writable,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let controller: Dispatcher.DispatchController | undefined;
    let to: Writable | undefined;
    let failure: { readonly reason: Error } | undefined;
    let late: NodeJS.Timeout | undefined;
    const body = request.body instanceof Readable ? request.body : undefined;
    let sending = false;
    /** What waits for its turn. The upstream is not read meanwhile, so that it is little. */
    const pieces: Buffer[] = [];
    let [passed, waits, ended] = [0, false, false];

    /** Whether it is our side that the upstream waits for: who takes the answer, or who brings the request's body. */
    const isOurTurn = () =>
      to === undefined ? sending && body?.isPaused() === false : waits || to.writableNeedDrain;
    const wait = (ms: number, error: () => Error) => {
      clearTimeout(late);
      late = setTimeout(() => (isOurTurn() ? late?.refresh() : fail(error())), ms);
    };
    const fail = (reason: Error) => {
      if (failure !== undefined) return;
      failure = { reason };
      clearTimeout(late);
      signal?.removeEventListener('abort', onAbort);
      reject(reason);
      controller?.abort(reason);
      to?.destroy(reason);
      // What is left of it is nobody's.
      body?.destroy();
    };
    const onAbort = () => fail(signal?.reason);
    const onClose = () => {
      if (to?.writableFinished !== true) return fail(to?.errored ?? new Error('closed before the end'));
      signal?.removeEventListener('abort', onAbort);
      resolve();
    };

    /** Says whether more may come at once. */
    const pass = (chunk: Buffer) => {
      passed += chunk.length;
      return to?.write(chunk, (error) => error ?? free(chunk)) !== false;
    };
    /** The next piece in its turn, the end where there is none any more, or else more of the upstream's. */
    const proceed = () => {
      if (waits || failure !== undefined || to?.writableNeedDrain) return;
      if (pieces.length > 0 && passing !== undefined) {
        waits = true;
        passing
          .inTurn(() => {
            waits = false;
            const piece = pieces.shift();
            if (failure !== undefined || piece === undefined) return;
            late?.refresh();
            pass(piece);
            proceed();
          })
          .catch(fail);
      } else if (ended) to?.end();
      else controller?.resume();
    };

    if (signal?.aborted) return fail(signal.reason);
    signal?.addEventListener('abort', onAbort);
    wait(patience.queueMs, noConnection);
    dispatcher.dispatch(
      { ...request, ...UNTIMED },
      {
        onRequestStart: (started) => {
          controller = started;
          if (failure !== undefined) return started.abort(failure.reason);
          sending = body !== undefined;
          wait(patience.headMs, () => new errors.HeadersTimeoutError());
        },
        onBodySent: () => void late?.refresh(),
        onRequestSent: () => {
          sending = false;
          late?.refresh();
        },
        onResponseStart: (answering, status, headers) => {
          if (status < 200) return;
          wait(patience.pieceMs, () => new errors.BodyTimeoutError());
          to = into({ status, headers: single(headers) });
          to.on('drain', () => {
            late?.refresh();
            proceed();
          })
            .on('error', fail)
            .on('close', onClose);
          if (to.writableNeedDrain) answering.pause();
        },
        onResponseData: (answering, chunk) => {
          late?.refresh();
          const isAtOnce = passed < AT_ONCE || passing?.isShared() !== true;
          if (pieces.length === 0 && isAtOnce) {
            if (!pass(chunk)) answering.pause();
            return;
          }
          pieces.push(chunk);
          answering.pause();
          proceed();
        },
        onResponseEnd: () => {
          clearTimeout(late);
          late = undefined;
          ended = true;
          if (pieces.length === 0) to?.end();
        },
        onResponseError: (_, error) => fail(error),
      },
    );
  });
}

function noConnection(): ServiceError {
  return new ServiceError('unavailable', 'no connection to the upstream was free', { retryAfter: 1 });
}

/** Headers that came twice are not believed. */
function single(headers: Readonly<Record<string, string | string[] | undefined>>): Record<string, string> {
  const result: Record<string, string> = {};
  for (const name of Object.keys(headers)) {
    const value = headers[name];
    if (typeof value === 'string') result[name] = value;
  }
  return result;
}
