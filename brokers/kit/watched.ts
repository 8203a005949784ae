import { readFile } from 'node:fs/promises';

/** A mounted file whose parsed content follows the file: Kubernetes replaces Secrets under a running process. */
export interface Watched<T> {
  current(): T;
  /** Looks now instead of at the next tick. */
  refresh(): Promise<void>;
  close(): void;
}

export interface WatchOptions<T> {
  readonly parse: (text: string) => T;
  /** Called when new content was taken, or was bad and the last good one stays. */
  readonly onChange?: (outcome: { ok: true; value: T } | { ok: false; error: unknown }) => void;
  readonly intervalMs?: number;
}

/** Reads the file (failing when it is bad now) and looks again every two seconds. */
export async function watchFile<T>(path: string, options: WatchOptions<T>): Promise<Watched<T>> {
  let text = await readFile(path, 'utf8');
  let value = options.parse(text);
  let bad: string | undefined;

  async function refresh(): Promise<void> {
    let next = '';
    try {
      next = await readFile(path, 'utf8');
      // What was refused is looked at again: the reason may lie elsewhere and be gone.
      if (next === text) return;
      value = options.parse(next);
      text = next;
      bad = undefined;
      options.onChange?.({ ok: true, value });
    } catch (error) {
      if (bad !== next) options.onChange?.({ ok: false, error });
      bad = next;
    }
  }

  const timer = setInterval(() => void refresh(), options.intervalMs ?? 2_000);
  timer.unref();
  return { current: () => value, refresh, close: () => clearInterval(timer) };
}
