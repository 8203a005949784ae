import { ServiceError } from '@space/broker-kit';

/** The part of the upstream client that deletes what lies under a place. */
export interface Sweepable {
  list(
    query: { readonly prefix: string; readonly limit: number },
    options?: { readonly signal?: AbortSignal | undefined },
  ): Promise<{ readonly objects: readonly { readonly key: string }[] }>;
  /** Answers the keys that could not be deleted. */
  deleteMany(
    keys: readonly string[],
    options?: { readonly signal?: AbortSignal | undefined },
  ): Promise<readonly unknown[]>;
}

/** As many as one deletion may name. */
const PAGE = 1_000;
const PLACE = /^c\/[0-9a-f]{40}\/(?:a\/[0-9a-f]{40}\/)?$/;

/**
 * Deletes every object under a place, from the front until nothing is left: it may be stopped and run again, and
 * what several run side by side is deleted once.
 */
export function createSweep(store: Sweepable) {
  return async (place: string, stopping?: AbortSignal): Promise<void> => {
    // A damaged row must not empty the bucket.
    if (!PLACE.test(place)) throw new Error('not a place of ours');
    for (;;) {
      stopping?.throwIfAborted();
      const { objects } = await store.list({ prefix: place, limit: PAGE }, { signal: stopping });
      if (objects.length === 0) return;
      const keys = objects.map(({ key }) => key);
      if (!keys.every((key) => key.startsWith(place)))
        throw new Error('the store lists what was not asked for');
      const left = await store.deleteMany(keys, { signal: stopping });
      if (left.length > 0)
        throw new ServiceError('unavailable', 'the store keeps objects that were deleted', { retryAfter: 5 });
    }
  };
}
