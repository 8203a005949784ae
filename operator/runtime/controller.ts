import { withDeadline } from './deadline.ts';
import { ApiError, isConflict } from './errors.ts';
import type { Key } from './kube-object.ts';
import type { Queue } from './queue.ts';

/** What a successful reconcile may ask for. */
export interface Result {
  readonly requeueAfterMs?: number;
}

export type Outcome = 'success' | 'requeue_after' | 'requeue' | 'error';

export interface ControllerOptions {
  readonly name: string;
  readonly queue: Queue;
  readonly workers: number;
  /** Aborts every running reconcile. */
  readonly halt?: AbortSignal;
  /** Milliseconds after which a reconcile's signal aborts; all of its I/O takes the signal. */
  readonly deadlineMs: number;
  readonly reconcile: (key: Key, signal: AbortSignal) => Promise<Result>;
  readonly onOutcome?: (key: Key, outcome: Outcome, tookMs: number, error?: unknown) => void;
  readonly onActive?: (change: 1 | -1) => void;
}

/** Works on the keys of a queue. Resolves when the queue is closed and every reconcile has ended. */
export async function runController(options: ControllerOptions): Promise<void> {
  await Promise.all(Array.from({ length: options.workers }, () => work(options)));
}

async function work(options: ControllerOptions): Promise<void> {
  const { queue } = options;
  for (let key = await queue.take(); key !== undefined; key = await queue.take()) {
    options.onActive?.(1);
    try {
      await once(options, key);
    } finally {
      options.onActive?.(-1);
      queue.done(key);
    }
  }
}

async function once(options: ControllerOptions, key: Key): Promise<void> {
  const { queue, onOutcome = () => {} } = options;
  const started = performance.now();
  const took = () => performance.now() - started;
  try {
    const { requeueAfterMs } = await withDeadline(options.deadlineMs, [options.halt], (signal) =>
      options.reconcile(key, signal),
    );
    queue.forget(key);
    if (requeueAfterMs !== undefined) queue.addAfter(key, requeueAfterMs, 'low');
    onOutcome(key, requeueAfterMs === undefined ? 'success' : 'requeue_after', took());
  } catch (error) {
    // Any error stays with its key: one object that fails never stops the others.
    queue.addRateLimited(key, (error instanceof ApiError && error.retryAfterMs) || 0);
    // A conflict means that the store was behind, which is normal.
    onOutcome(key, isConflict(error) ? 'requeue' : 'error', took(), error);
  }
}
