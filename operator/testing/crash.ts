import type { DatabaseBroker } from '../brokers/database.ts';
import type { ObjectStoreBroker } from '../brokers/objects.ts';
import type { ApiClient } from '../runtime/client.ts';

/** What an operator does from its start to its end, which may be brought about right after a given act. */
export interface OperatorRun {
  /** Writes and broker calls that took effect, Events aside. */
  readonly acts: readonly string[];
  readonly dead: boolean;
  /** From now on, it may do so many acts more. */
  arm(more: number): void;
}

/**
 * An operator that ends after its `dieAfter`-th act as by kill -9: the act has taken effect, its answer is never
 * seen, and nothing is heard or done any more.
 */
export function killableRun(
  client: ApiClient,
  database: DatabaseBroker,
  dieAfter = Number.POSITIVE_INFINITY,
  objectStore?: ObjectStoreBroker,
) {
  const acts: string[] = [];
  let last = dieAfter;
  let dead = false;

  const alive = () => {
    if (dead) throw new Error('this operator is dead');
  };
  async function act<T>(name: string, doIt: () => Promise<T>): Promise<T> {
    alive();
    const answer = await doIt();
    alive();
    acts.push(name);
    if (acts.length >= last) dead = true;
    alive();
    return answer;
  }

  const killableClient: ApiClient = {
    async call(request) {
      alive();
      const silent =
        request.method === 'GET' || /\/(events|selfsubjectreviews|leases|leases\/[^/]+)$/.test(request.path);
      if (silent) return client.call(request);
      return act(`${request.method} ${request.path}`, () => client.call(request));
    },
    async lines(request) {
      alive();
      const lines = await client.lines(request);
      return (async function* () {
        for await (const line of lines) {
          alive();
          yield line;
        }
      })();
    },
  };
  const killableDatabase: DatabaseBroker = {
    provision: (...args) => act('provision', () => database.provision(...args)),
    createApp: (...args) => act('createApp', () => database.createApp(...args)),
    dropApp: (...args) => act('dropApp', () => database.dropApp(...args)),
    drop: (...args) => act('drop', () => database.drop(...args)),
    finalize: (...args) => act('finalize', () => database.finalize(...args)),
    limits: (...args) => act('limits', () => database.limits(...args)),
    appUsage: async (...args) => {
      alive();
      return database.appUsage(...args);
    },
  };
  const killableObjectStore: ObjectStoreBroker | undefined = objectStore && {
    provision: (...args) => act('objects provision', () => objectStore.provision(...args)),
    createApp: (...args) => act('objects createApp', () => objectStore.createApp(...args)),
    dropApp: (...args) => act('objects dropApp', () => objectStore.dropApp(...args)),
    selection: async (...args) => {
      alive();
      return objectStore.selection(...args);
    },
    usage: async (...args) => {
      alive();
      return objectStore.usage(...args);
    },
    appUsage: async (...args) => {
      alive();
      return objectStore.appUsage(...args);
    },
    drop: (...args) => act('objects drop', () => objectStore.drop(...args)),
    finalize: (...args) => act('objects finalize', () => objectStore.finalize(...args)),
  };
  const run: OperatorRun = {
    acts,
    get dead() {
      return dead;
    },
    arm(more) {
      last = acts.length + more;
    },
  };
  return { client: killableClient, database: killableDatabase, objectStore: killableObjectStore, run };
}
