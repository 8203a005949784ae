import { readFile } from 'node:fs/promises';

/**
 * A mounted file with its parsed content, which is read again when it changes: Kubernetes replaces Secrets while a
 * process runs.
 */
export interface Watched<T> {
  current(): T;
  /** Reads the file now instead of at the next tick. */
  refresh(): Promise<void>;
  close(): void;
}

export interface WatchedFile<T> extends Watched<T> {
  /** Whether the file was last found to be missing or invalid, so that the last valid content stays. */
  isRefused(): boolean;
}

export interface WatchOptions<T> {
  readonly parse: (text: string) => T | Promise<T>;
  /** Called when new content was accepted, or was invalid so that the last valid content stays. */
  readonly onChange?: ((outcome: { ok: true; value: T } | { ok: false; error: unknown }) => void) | undefined;
  readonly intervalMs?: number;
}

/** Reads the file (throws if it is invalid now) and checks it again every two seconds. */
export async function watchFile<T>(path: string, options: WatchOptions<T>): Promise<WatchedFile<T>> {
  let text = await readFile(path, 'utf8');
  let value = await options.parse(text);
  let bad: string | undefined;
  let looking: Promise<void> | undefined;

  async function look(): Promise<void> {
    let next = '';
    try {
      next = await readFile(path, 'utf8');
      // Content that was refused is checked again, since the reason may have been elsewhere.
      if (next === text) {
        bad = undefined;
        return;
      }
      value = await options.parse(next);
      text = next;
      bad = undefined;
      options.onChange?.({ ok: true, value });
    } catch (error) {
      if (bad !== next) options.onChange?.({ ok: false, error });
      bad = next;
    }
  }

  /** One look after the other, so that none overwrites what a later one has read. */
  function refresh(): Promise<void> {
    const mine = (looking ?? Promise.resolve()).then(look).finally(() => {
      if (looking === mine) looking = undefined;
    });
    looking = mine;
    return mine;
  }

  const timer = setInterval(() => {
    if (looking === undefined) void refresh();
  }, options.intervalMs ?? 2_000);
  timer.unref();
  return {
    current: () => value,
    isRefused: () => bad !== undefined,
    refresh,
    close: () => clearInterval(timer),
  };
}
