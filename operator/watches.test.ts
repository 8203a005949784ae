import { expect, test } from 'vitest';
import type { SpaceNames } from './names.ts';
import type { ApiClient, ApiRequest } from './runtime/client.ts';
import { systemClock } from './runtime/clock.ts';
import { makeStores } from './stores.ts';
import { makeReflectors } from './watches.ts';

const names = { space: 'home', namespace: 'home', systemNamespace: 'home-system' } as SpaceNames;

test.each(['Assistant', 'ConfigMap'])(
  'objects with a manifest are listed few at a time, as 500 of a megabyte would not fit into memory: %s',
  async (kind) => {
    const asked: ApiRequest[] = [];
    const ending = new AbortController();
    const client: ApiClient = {
      async call<T>(request: ApiRequest) {
        asked.push(request);
        return { metadata: { resourceVersion: '1' }, items: [] } as T;
      },
      async lines() {
        ending.abort();
        throw new Error('this is enough');
      },
    };
    const onProblem = () => {};
    const { all } = makeReflectors({ client, clock: systemClock, names, stores: makeStores(), onProblem });
    await all[kind]?.run(ending.signal);
    expect(asked.map(({ query }) => query?.['limit'])).toEqual(['50']);
  },
);
