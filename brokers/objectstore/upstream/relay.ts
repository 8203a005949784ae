import type { Writable } from 'node:stream';
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

/** How long an upstream may keep us waiting for its answer, and for each next piece of it; milliseconds. */
interface Patience {
  readonly headMs: number;
  readonly pieceMs: number;
}

export const PATIENCE: Patience = { headMs: 30_000, pieceMs: 60_000 };

/** undici's own timers stay for a second when they are done with, and so become old objects, two for each request. */
const UNTIMED = { headersTimeout: 0, bodyTimeout: 0 };

/**
 * Sends a request, and its answer's body where `into` says, with back-pressure; resolves when all of it was taken.
 * Every download goes this way, so there is nothing in it but the body: undici's own `stream()` does more around each.
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

    const wait = (ms: number, error: () => Error) => {
      clearTimeout(late);
      // While nobody takes what is there, nothing more is asked for.
      late = setTimeout(() => (to?.writableNeedDrain ? late?.refresh() : fail(error())), ms);
    };
    const fail = (reason: Error) => {
      if (failure !== undefined) return;
      failure = { reason };
      clearTimeout(late);
      signal?.removeEventListener('abort', onAbort);
      reject(reason);
      controller?.abort(reason);
      to?.destroy(reason);
    };
    const onAbort = () => fail(signal?.reason);
    const onClose = () => {
      if (to?.writableFinished !== true) return fail(to?.errored ?? new Error('closed before the end'));
      signal?.removeEventListener('abort', onAbort);
      resolve();
    };

    if (signal?.aborted) return fail(signal.reason);
    signal?.addEventListener('abort', onAbort);
    dispatcher.dispatch(
      { ...request, ...UNTIMED },
      {
        onRequestStart: (started) => {
          controller = started;
          if (failure !== undefined) return started.abort(failure.reason);
          wait(patience.headMs, () => new errors.HeadersTimeoutError());
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

/** Headers that came twice are not believed. */
export function single(
  headers: Readonly<Record<string, string | string[] | undefined>>,
): Record<string, string> {
  const result: Record<string, string> = {};
  for (const name of Object.keys(headers)) {
    const value = headers[name];
    if (typeof value === 'string') result[name] = value;
  }
  return result;
}
