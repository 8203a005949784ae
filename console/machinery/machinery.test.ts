import { expect, it } from 'vitest';
import type { Ask } from '../kubernetes/client.ts';
import { machineryOf } from './machinery.ts';

/** How often nodes and programs were read while a page that shows them was opened three times within 20 seconds. */
async function readsOf(count: number) {
  let nodes = 0;
  let programs = 0;
  const names = Array.from({ length: count }, (_, index) => ({ metadata: { name: `node-${index}` } }));
  const reader = {
    names: { systemNamespace: 'home-system', servicesNamespace: 'home-services' },
    session: { id: 'one' },
    ask: async ({ path, query }: Ask) => {
      if (path.endsWith('/statefulsets')) programs += 1;
      if (path !== '/api/v1/nodes') return { items: [] };
      const from = Number(query?.['continue'] ?? 0);
      const to = from + Number(query?.['limit']);
      if (from === 0) nodes += 1;
      return {
        metadata: { ...(to < count ? { continue: String(to) } : {}) },
        items: names.slice(from, to),
      };
    },
  };
  let now = 0;
  const open = machineryOf({
    sandbox: { runtimeClass: 'gvisor', handler: 'runsc' },
    certificatesOf: async () => [],
    now: () => new Date(now),
  });
  for (const at of [0, 5_000, 20_000]) {
    now = at;
    expect((await open(reader, true)).nodes?.items).toHaveLength(count);
  }
  return { nodes, programs: programs / 2 };
}

it('each page that shows them reads programs and the nodes of a small cluster', async () => {
  expect(await readsOf(500)).toEqual({ nodes: 3, programs: 3 });
});

it('the nodes of a large cluster are read at most every 15 seconds, since one of them always changes', async () => {
  expect(await readsOf(501)).toEqual({ nodes: 2, programs: 3 });
});
