import type { Writable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { free } from './pieces.ts';

/** The head of an answer. */
export interface Head {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
}

interface Sent {
  readonly request: Dispatcher.DispatchOptions;
  readonly signal: AbortSignal | undefined;
}

/**
 * Sends a request, and its answer's body where `into` says, with back-pressure; resolves when all of it was taken.
 * Every download goes this way, so there is nothing in it but the body: undici's own `stream()` does more around each.
 * Who takes a piece copies what it wants to keep: when it says that it has taken it, the piece is freed.
 */
export function relay(
  dispatcher: Dispatcher,
  { request, signal }: Sent,
  into: (head: Head) => Writable,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let controller: Dispatcher.DispatchController | undefined;
    let to: Writable | undefined;
    let failure: { readonly reason: Error } | undefined;

    const fail = (reason: Error) => {
      if (failure !== undefined) return;
      failure = { reason };
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
    dispatcher.dispatch(request, {
      onRequestStart: (started) => {
        controller = started;
        if (failure !== undefined) started.abort(failure.reason);
      },
      onResponseStart: (answering, status, headers) => {
        if (status < 200) return;
        to = into({ status, headers: single(headers) });
        to.on('drain', () => answering.resume())
          .on('error', fail)
          .on('close', onClose);
        if (to.writableNeedDrain) answering.pause();
      },
      onResponseData: (answering, chunk) => {
        if (to?.write(chunk, (error) => error ?? free(chunk)) === false) answering.pause();
      },
      onResponseEnd: () => void to?.end(),
      onResponseError: (_, error) => fail(error),
    });
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
