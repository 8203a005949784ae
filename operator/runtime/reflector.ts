import type { ApiClient } from './client.ts';
import type { Clock } from './clock.ts';
import { ApiError, isAhead, isGone, SilenceError } from './errors.ts';
import { type KubeObject, keyOf, pathOf, type Resource } from './kube-object.ts';
import { Recovery } from './recovery.ts';
import { RetryDelay } from './retry-delay.ts';
import type { Store } from './store.ts';

export interface ReflectorOptions<T extends KubeObject> {
  readonly client: ApiClient;
  readonly clock: Clock;
  readonly resource: Resource;
  readonly store: Store<T>;
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  /** An object that the selectors match and this function rejects is treated as absent. */
  readonly keeps?: (object: T) => boolean;
  /** Removes fields that nobody reads before an object is stored. */
  readonly trim?: (object: T) => T;
  readonly pageSize?: number;
  /**
   * A watch without a byte for this long is opened again. Bookmarks come every minute, but not for a kind without
   * changes since the server started, so silence alone is no failure.
   */
  readonly inactivityMs?: number;
  /** Shared by all reflectors of one server. */
  readonly recovery?: Recovery;
  readonly onProblem?: (error: unknown, retryInMs: number) => void;
}

/** A server ends watches after minutes; one that ends sooner has another cause. */
const SHORTEST_WATCH_MS = 1000;

/** Why a store may not be trusted: it was never filled, or the last attempt to follow the server failed. */
export type Health = 'current' | 'unsynced' | 'failing';

/**
 * Keeps a store equal to the server: it lists in pages, then watches with bookmarks, and continues from the last
 * resource version, or with a new list after a 410. No error ends it, only its signal.
 */
export class Reflector<T extends KubeObject> {
  readonly #options: ReflectorOptions<T>;
  readonly #retry: RetryDelay;
  readonly #synced = Promise.withResolvers<void>();
  readonly #healthListeners: (() => void)[] = [];
  #health: Health = 'unsynced';
  #version: string | undefined;
  /** The last version from the server, which stays when a watch starts again. */
  #latest: string | undefined;

  constructor(options: ReflectorOptions<T>) {
    this.#options = options;
    this.#retry = new RetryDelay(options.clock, options.recovery ?? new Recovery());
  }

  get health(): Health {
    return this.#health;
  }

  /** Calls the listener whenever `health` changes. */
  onHealth(listener: () => void): void {
    this.#healthListeners.push(listener);
  }

  /** Resolves when the first list is in the store. */
  get synced(): Promise<void> {
    return this.#synced.promise;
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        this.#version ??= await this.#list(signal);
        const began = this.#options.clock.now();
        await this.#watch(this.#version, signal);
        // A server that ends every watch at once must not be asked in a tight loop.
        const lasted = this.#options.clock.now() - began;
        if (lasted < SHORTEST_WATCH_MS) await this.#retry.waitAfterEnd(signal);
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof SilenceError) continue;
        if (isGone(error) || isAhead(error)) this.#version = undefined;
        if (this.#health === 'current') this.#become('failing');
        const waitMs = this.#retry.after(error);
        this.#options.onProblem?.(error, waitMs);
        await this.#retry.wait(error, waitMs, signal);
      }
    }
  }

  async #list(signal: AbortSignal): Promise<string> {
    const { client, resource, namespace, store, trim = (object: T) => object } = this.#options;
    const objects: T[] = [];
    let next: string | undefined;
    do {
      const page: ListPage<T> = await client.call({
        method: 'GET',
        path: pathOf(resource, namespace),
        query: {
          ...this.#selectors(),
          limit: String(this.#options.pageSize ?? 500),
          ...(next ? { continue: next } : {}),
        },
        signal,
        timeoutMs: 60_000,
      });
      for (const item of page.items) if (this.#keeps(item)) objects.push(trim(item));
      next = page.metadata.continue || undefined;
      if (!next) {
        const version = page.metadata.resourceVersion;
        store.replace(objects, { restored: isEarlier(version, this.#latest), version });
        this.#version = this.#latest = version;
      }
    } while (next);
    this.#become('current');
    this.#retry.answered();
    this.#synced.resolve();
    return this.#version ?? '';
  }

  async #watch(from: string, signal: AbortSignal): Promise<void> {
    const { client, clock, resource, namespace } = this.#options;
    // Spread over five minutes, so that a server's watches do not all end together.
    const timeoutSeconds = Math.round(300 + 300 * clock.random());
    const ended = new AbortController();
    const lines = await client.lines({
      method: 'GET',
      path: pathOf(resource, namespace),
      query: {
        ...this.#selectors(),
        watch: 'true',
        allowWatchBookmarks: 'true',
        resourceVersion: from,
        timeoutSeconds: String(timeoutSeconds),
      },
      signal: AbortSignal.any([signal, ended.signal]),
      inactivityMs: this.#options.inactivityMs ?? 90_000,
    });
    this.#become('current');
    this.#retry.answered();
    try {
      for await (const line of lines) this.#take(JSON.parse(line) as WatchEvent<T>);
    } finally {
      ended.abort();
    }
  }

  #take(event: WatchEvent<T>): void {
    const { store, trim = (object: T) => object } = this.#options;
    if (event.type === 'ERROR') {
      const { code = 500, reason = '', message = 'the watch ended with an error' } = event.object;
      throw new ApiError({ status: code, reason, message });
    }
    // After a restore of the server's storage its versions are lower, and the watch would bring nothing until they have
    // caught up.
    const version = event.object.metadata.resourceVersion;
    if (isEarlier(version, this.#latest))
      throw new ApiError({ status: 410, reason: 'Gone', message: RESTORED });
    if (event.type === 'ADDED' || event.type === 'MODIFIED') {
      if (this.#keeps(event.object)) store.set(trim(event.object));
      else store.delete(keyOf(event.object));
    } else if (event.type === 'DELETED') store.delete(keyOf(event.object), event.object);
    this.#version = this.#latest = version;
    this.#retry.reset();
  }

  #keeps(object: T): boolean {
    return this.#options.keeps?.(object) ?? true;
  }

  #selectors(): Record<string, string> {
    const { labelSelector, fieldSelector } = this.#options;
    return {
      ...(labelSelector ? { labelSelector } : {}),
      ...(fieldSelector ? { fieldSelector } : {}),
    };
  }

  #become(health: Health): void {
    if (this.#health === health) return;
    this.#health = health;
    for (const listener of this.#healthListeners) listener();
  }
}

const RESTORED = 'the API server reports an earlier version than before, as after a restore of its storage';

/** Versions of one kind are numbers that grow with each change (KEP-5504). */
const isEarlier = (version: string | undefined, than: string | undefined): boolean =>
  version !== undefined && than !== undefined && BigInt(version) < BigInt(than);

interface ListPage<T> {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  readonly items: readonly T[];
}

type WatchEvent<T> =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK'; readonly object: T }
  | {
      readonly type: 'ERROR';
      readonly object: { readonly code?: number; readonly reason?: string; readonly message?: string };
    };
