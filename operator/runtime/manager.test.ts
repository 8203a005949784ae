import { expect, test } from 'vitest';
import type { ApiClient, ApiRequest } from './client.ts';
import { systemClock } from './clock.ts';
import type { KubeObject, Resource } from './kube-object.ts';
import { startManager } from './manager.ts';
import { Queue } from './queue.ts';
import { Reflector } from './reflector.ts';
import { Store } from './store.ts';

const THING: Resource = { group: '', version: 'v1', plural: 'things', kind: 'Thing', namespaced: true };

/** A client whose lists wait for the test, and whose watches are silent. */
function slowClient() {
  const listed = Promise.withResolvers<void>();
  const untilAborted = (signal: AbortSignal | undefined) =>
    new Promise<never>((_, reject) => signal?.addEventListener('abort', () => reject(new Error('aborted'))));
  const client: ApiClient = {
    async call<T>({ signal }: ApiRequest) {
      await Promise.race([listed.promise, untilAborted(signal)]);
      return { metadata: { resourceVersion: '1' }, items: [] } as T;
    },
    async lines({ signal }) {
      await untilAborted(signal);
      return (async function* () {})();
    },
  };
  return { client, list: listed.resolve };
}

function manage(lead?: (signal: AbortSignal) => Promise<void>) {
  const { client, list } = slowClient();
  const store = new Store<KubeObject>();
  const queue = new Queue({ clock: systemClock });
  const worked: string[] = [];
  const hold = Promise.withResolvers<void>();
  const reconcile = async (key: string) => {
    worked.push(key);
    await hold.promise;
    worked.push(`${key} done`);
    return {};
  };
  const manager = startManager({
    reflectors: { things: new Reflector({ client, clock: systemClock, resource: THING, store }) },
    controllers: [{ name: 'things', queue, workers: 1, deadlineMs: 250_000, reconcile }],
    ...(lead ? { lead } : {}),
  });
  queue.add('a');
  return { manager, list, worked, release: hold.resolve };
}

test('nothing is reconciled before the stores are filled and the Lease is held', async () => {
  const leading = Promise.withResolvers<void>();
  const { manager, list, worked, release } = manage(() => leading.promise);
  expect(manager.health()).toEqual({ things: 'unsynced' });
  list();
  await new Promise(setImmediate);
  expect([manager.ready, worked]).toEqual([false, []]);
  leading.resolve();
  await manager.started;
  expect(manager.ready).toBe(true);
  release();
  await manager.stop();
  expect(worked).toEqual(['a', 'a done']);
});

test('reconciles in progress end before the manager does', async () => {
  const { manager, list, worked, release } = manage();
  list();
  await manager.started;
  await new Promise(setImmediate);
  const stopped = manager.stop();
  expect(manager.ready).toBe(false);
  release();
  await stopped;
  expect(worked).toEqual(['a', 'a done']);
});

test('a manager that is stopped before it started ends as well', async () => {
  const { manager, worked } = manage();
  await manager.stop();
  await manager.started;
  expect([manager.ready, worked]).toEqual([false, []]);
});

test('reconciles that hang are aborted, so that the Lease is released in time', async () => {
  const { client, list } = slowClient();
  const queue = new Queue({ clock: systemClock });
  const happened: string[] = [];
  const manager = startManager({
    reflectors: {
      things: new Reflector({ client, clock: systemClock, resource: THING, store: new Store() }),
    },
    controllers: [
      {
        name: 'things',
        queue,
        workers: 1,
        deadlineMs: 250_000,
        reconcile: (_, signal) =>
          new Promise((_resolve, reject) => {
            happened.push('hangs');
            signal.addEventListener('abort', () => {
              happened.push('ended');
              reject(signal.reason);
            });
          }),
      },
    ],
    release: async () => void happened.push('released'),
    graceMs: 10,
  });
  queue.add('a');
  list();
  await manager.started;
  await new Promise(setImmediate);
  await manager.stop();
  expect(happened).toEqual(['hangs', 'ended', 'released']);
});
