import type { ObjectStoreBroker } from '../brokers/objects.ts';

/** An object-storage broker that says yes to everything and keeps nothing; `changes` go over its operations. */
export function agreeingObjects(changes: Partial<ObjectStoreBroker> = {}): ObjectStoreBroker {
  const done = async () => {};
  return {
    provision: done,
    createApp: done,
    dropApp: done,
    selection: async () => undefined,
    usage: async () => ({ usedBytes: 0, limitBytes: 1 }),
    appUsage: async () => undefined,
    drop: done,
    finalize: done,
    ...changes,
  };
}
