import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiServer, startApiServer } from '../testing/api-server.ts';
import { eventually } from '../testing/eventually.ts';
import { type FaultProxy, openFaultProxy } from '../testing/fault-proxy.ts';
import { systemClock } from './clock.ts';
import { type KubeObject, pathOf, type Resource } from './objects.ts';
import { Reflector } from './reflector.ts';
import { Store } from './store.ts';

const CONFIG_MAP: Resource = {
  group: '',
  version: 'v1',
  plural: 'configmaps',
  kind: 'ConfigMap',
  namespaced: true,
};
interface ConfigMap extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

let server: ApiServer;
let namespaces = 0;

beforeAll(async () => {
  server = await startApiServer();
});
afterAll(() => server?.stop());

const isWatch = (url: string) => url.includes('watch=true');

test.each<[string, Parameters<FaultProxy['fault']>[0]]>([
  ['breaks inside a line', ({ url }) => (isWatch(url) ? { kind: 'cut', afterBytes: 700 } : undefined)],
  [
    'ends in good order inside a line',
    ({ url }) => (isWatch(url) ? { kind: 'end', afterBytes: 700 } : undefined),
  ],
  ['has forgotten the version', ({ url }) => (isWatch(url) ? { kind: 'answer', status: 410 } : undefined)],
  ['has too much to do', () => ({ kind: 'answer', status: 429, retryAfter: 1 })],
  ['fails', () => ({ kind: 'answer', status: 503 })],
])('a server that %s is followed again without a miss, and without a hot loop', async (_, fault) => {
  namespaces += 1;
  const namespace = `watching-${namespaces}`;
  const { client } = server;
  await client.call({ method: 'POST', path: '/api/v1/namespaces', body: { metadata: { name: namespace } } });
  const proxy = await openFaultProxy(server);
  const store = new Store<ConfigMap>();
  const reflector = new Reflector<ConfigMap>({
    client: server.clientAt(proxy.port, 'http'),
    clock: systemClock,
    resource: CONFIG_MAP,
    store,
    namespace,
    inactivityMs: 700,
  });
  const ending = new AbortController();
  const running = reflector.run(ending.signal);
  await reflector.synced;
  const path = pathOf(CONFIG_MAP, namespace);
  const said = (maps: readonly ConfigMap[]) =>
    maps.map(({ metadata, data }) => `${metadata.name} ${data?.['i']}`).sort();
  const agree = async () => {
    const { items } = await client.call<{ items: ConfigMap[] }>({ method: 'GET', path });
    expect(said(store.list())).toEqual(said(items));
    return true;
  };

  for (let round = 0; round < 3; round++) {
    proxy.fault(fault);
    proxy.cut();
    const asked = proxy.asked.length;
    const began = performance.now();
    for (let i = 0; i < 10; i++) {
      const name = `c${round}-${i}`;
      await client.call({ method: 'POST', path, body: { metadata: { name }, data: { i: `${i}` } } });
      if (i % 3 === 0) await client.call({ method: 'DELETE', path: `${path}/${name}` });
    }
    await eventually(() => proxy.asked.length > asked + 2, { what: 'it has tried again' });
    // Doubling waits from a tenth of a second: a loop without any makes thousands.
    expect(proxy.asked.length - asked).toBeLessThan(20 + (performance.now() - began) / 100);
    proxy.fault(() => undefined);
    await eventually(agree, { what: 'the store says what the server says' });
  }
  await eventually(() => reflector.health === 'current', { what: 'it trusts what it sees' });
  ending.abort();
  await running;
  await proxy.close();
});
