import { expect, it } from 'vitest';
import { createSweep } from './sweep.ts';

const prefix = `c/${'0'.repeat(40)}/`;

/** A store with an object of each key, in pages of two; what is deleted is listed for some lists more. */
function storeOf(keys: readonly string[], staysFor: number) {
  const left = new Map(keys.map((key) => [`${prefix}${key}`, staysFor]));
  let lists = 0;
  const unsorted = { size: 1, etag: '', modified: '' };
  return {
    lists: () => lists,
    s3: {
      list: async () => {
        lists += 1;
        if (lists > 10_000) throw new Error('it lists for ever');
        return {
          objects: [...left.keys()].slice(0, 2).map((key) => ({ key, ...unsorted })),
          prefixes: [],
          next: undefined,
        };
      },
      deleteMany: async (all: readonly string[]) => {
        for (const key of all) {
          const more = left.get(key) ?? 0;
          if (more > 0) left.set(key, more - 1);
          else left.delete(key);
        }
        return [];
      },
      delete: async () => undefined,
    },
    abortUploads: async () => undefined,
  };
}

it('a store that still lists what it has reported as deleted counts as unavailable, and is not retried endlessly', async () => {
  const store = storeOf(['a', 'b', 'c'], Number.POSITIVE_INFINITY);
  await expect(createSweep(store)(prefix)).rejects.toMatchObject({ code: 'unavailable' });
  expect(store.lists()).toBeLessThan(100);
});

it('a store whose lists are a moment late is swept completely', async () => {
  await createSweep(storeOf(['a', 'b', 'c', 'd', 'e'], 2))(prefix);
});
