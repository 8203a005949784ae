import { Readable, type Writable } from 'node:stream';
import { ServiceError } from '@space/broker-kit';
import { type Dispatcher, errors } from 'undici';
import { free } from './pieces.ts';

/** The head of an answer. */
export interface Head {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
}

interface Sent {
  readonly request: Dispatcher.DispatchOptions;
  readonly signal: AbortSignal | undefined;
  readonly patience?: Patience;
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
  { request, signal, patience = PATIENCE }: Sent,
  into: (head: Head) => Writable,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let controller: Dispatcher.DispatchController | undefined;
    let to: Writable | undefined;
    let failure: { readonly reason: Error } | undefined;
    let late: NodeJS.Timeout | undefined;
    const body = request.body instanceof Readable ? request.body : undefined;
    let sending = false;

    /** Whether it is our side that the upstream waits for: who takes the answer, or who brings the request's body. */
    const isOurTurn = () => (to === undefined ? sending && body?.isPaused() === false : to.writableNeedDrain);
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
            answering.resume();
          })
            .on('error', fail)
            .on('close', onClose);
          if (to.writableNeedDrain) answering.pause();
        },
        onResponseData: (answering, chunk) => {
          late?.refresh();
          if (to?.write(chunk, (error) => error ?? free(chunk)) === false) answering.pause();
        },
        onResponseEnd: () => {
          clearTimeout(late);
          late = undefined;
          to?.end();
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
