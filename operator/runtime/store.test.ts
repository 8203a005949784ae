import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { KubeObject } from './kube-object.ts';
import { type Change, Store } from './store.ts';

const object = (name: string, version: number, owner = 'x', uid = name): KubeObject => ({
  metadata: { name, uid, resourceVersion: String(version), labels: { owner } },
});

function makeStore() {
  const store = new Store<KubeObject>({ owner: ({ metadata }) => [metadata.labels?.['owner'] ?? ''] });
  const changes: Change<KubeObject>[] = [];
  store.onChange((change) => changes.push(change));
  return { store, changes };
}

describe('the store', () => {
  test('reports a change with the previous object, and nothing if nothing is newer', () => {
    const { store, changes } = makeStore();
    store.set(object('a', 1));
    store.set(object('a', 2));
    store.set(object('a', 2));
    store.set(object('a', 1));
    expect(changes.map(({ before, now }) => [before, now].map((o) => o?.metadata.resourceVersion))).toEqual([
      [undefined, '1'],
      ['1', '2'],
    ]);
  });

  test('does not bring a deleted object back with an answer that comes late', () => {
    const { store } = makeStore();
    store.set(object('a', 5));
    store.delete('a', object('a', 9));
    store.set(object('a', 7));
    expect(store.get('a')).toBeUndefined();
    store.set(object('a', 10, 'x', 'another incarnation'));
    expect(store.get('a')).toBeDefined();
  });

  test('does not bring back what a list no longer has with an answer that comes late', () => {
    const { store } = makeStore();
    store.set(object('a', 5));
    store.replace([object('b', 8, 'x', 'second')], { version: '9' });
    // A change of before the list, one of an object that was never seen, and one of a former object of a name.
    store.set(object('a', 7), 'own');
    store.set(object('c', 9), 'own');
    store.set(object('b', 6, 'y', 'first'), 'own');
    expect(store.list().map(({ metadata }) => [metadata.name, metadata.uid])).toEqual([['b', 'second']]);
    store.set(object('a', 10, 'x', 'another incarnation'), 'own');
    expect(store.get('a')).toBeDefined();
    // The server's storage was restored, and its versions are lower.
    store.replace([], { restored: true, version: '4' });
    store.set(object('a', 6), 'own');
    expect(store.get('a')).toBeDefined();
  });

  test('becomes equal to a list and reports only differences', () => {
    const { store, changes } = makeStore();
    store.set(object('kept', 1));
    store.set(object('gone', 2));
    changes.length = 0;
    store.replace([object('kept', 1), object('new', 3)]);
    expect(changes.map(({ key, origin }) => [key, origin])).toEqual([
      ['gone', 'list'],
      ['new', 'list'],
    ]);
  });

  test('accepts an older list when the server’s storage was restored', () => {
    const { store, changes } = makeStore();
    store.set(object('changed', 8));
    store.set(object('kept', 2));
    store.delete('back', object('back', 9));
    changes.length = 0;
    const backup = [object('changed', 3, 'y'), object('kept', 2), object('back', 4)];
    store.replace(backup);
    expect(store.list().map(({ metadata }) => [metadata.name, metadata.resourceVersion])).toEqual([
      ['changed', '8'],
      ['kept', '2'],
    ]);
    store.replace(backup, { restored: true });
    expect(changes.map(({ key }) => key)).toEqual(['changed', 'back']);
    expect(store.by('owner', 'y').map(({ metadata }) => metadata.name)).toEqual(['changed']);
  });

  test('finds by index what a scan would find', () => {
    const act = fc.record({
      name: fc.constantFrom('a', 'b', 'c'),
      owner: fc.constantFrom('x', 'y'),
      remove: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(act), (acts) => {
        const { store } = makeStore();
        acts.forEach(({ name, owner, remove }, i) => {
          if (remove) store.delete(name);
          else store.set(object(name, i + 1, owner));
        });
        for (const owner of ['x', 'y']) {
          const scanned = store.list().filter(({ metadata }) => metadata.labels?.['owner'] === owner);
          expect(new Set(store.by('owner', owner))).toEqual(new Set(scanned));
        }
      }),
    );
  });
});
