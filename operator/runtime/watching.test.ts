import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiServer, startApiServer } from '../../testing/api-server.ts';
import { eventually } from '../../testing/eventually.ts';
import { type FaultProxy, openFaultProxy } from '../testing/fault-proxy.ts';
import { systemClock } from './clock.ts';
import { type KubeObject, pathOf, type Resource } from './kube-object.ts';
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

/** Follows what a test writes in a namespace of its own, by way of a proxy. */
async function follow(inactivityMs = 700) {
  namespaces += 1;
  const namespace = `watching-${namespaces}`;
  const { client } = server;
  await client.call({ method: 'POST', path: '/api/v1/namespaces', body: { metadata: { name: namespace } } });
  const proxy = await openFaultProxy(server);
  const store = new Store<ConfigMap>();
  const health: string[] = [];
  const reflector = new Reflector<ConfigMap>({
    client: server.clientAt(proxy.port, 'http'),
    clock: systemClock,
    resource: CONFIG_MAP,
    store,
    namespace,
    inactivityMs,
  });
  const ending = new AbortController();
  reflector.onHealth(() => health.push(reflector.health));
  const running = reflector.run(ending.signal);
  await reflector.synced;
  const path = pathOf(CONFIG_MAP, namespace);
  const said = (maps: readonly ConfigMap[]) =>
    maps.map(({ metadata, data }) => `${metadata.name} ${data?.['i']}`).sort();
  return {
    proxy,
    reflector,
    health,
    async write(name: string, i: number) {
      await client.call({ method: 'POST', path, body: { metadata: { name }, data: { i: `${i}` } } });
      if (i % 3 === 0) await client.call({ method: 'DELETE', path: `${path}/${name}` });
    },
    agreed: () =>
      eventually(
        async () => {
          const { items } = await client.call<{ items: ConfigMap[] }>({ method: 'GET', path });
          expect(said(store.list())).toEqual(said(items));
          return true;
        },
        { what: 'the store says what the server says' },
      ),
    async end() {
      await eventually(() => reflector.health === 'current', { what: 'it trusts what it sees' });
      ending.abort();
      await running;
      await proxy.close();
    },
  };
}

test.concurrent.each<[string, Parameters<FaultProxy['fault']>[0]]>([
  ['breaks inside a line', ({ url }) => (isWatch(url) ? { kind: 'cut', afterBytes: 700 } : undefined)],
  [
    'ends in good order inside a line',
    ({ url }) => (isWatch(url) ? { kind: 'end', afterBytes: 700 } : undefined),
  ],
  ['says nothing, not even that it heard', ({ url }) => (isWatch(url) ? { kind: 'stall' } : undefined)],
  ['opens a watch and is silent', ({ url }) => (isWatch(url) ? { kind: 'mute', afterBytes: 0 } : undefined)],
  ['falls silent inside a line', ({ url }) => (isWatch(url) ? { kind: 'mute', afterBytes: 700 } : undefined)],
  ['has forgotten the version', ({ url }) => (isWatch(url) ? { kind: 'answer', status: 410 } : undefined)],
  ['has too much to do', () => ({ kind: 'answer', status: 429, retryAfter: 1 })],
  ['fails', () => ({ kind: 'answer', status: 503 })],
])('a server that %s is watched again without a missed event, and without a hot loop', async (_, fault) => {
  const { proxy, write, agreed, end } = await follow();
  for (let round = 0; round < 3; round++) {
    proxy.fault(fault);
    proxy.cut();
    const asked = proxy.asked.length;
    const began = performance.now();
    for (let i = 0; i < 10; i++) await write(`c${round}-${i}`, i);
    await eventually(() => proxy.asked.length > asked + 2, { what: 'it has tried again' });
    // Waits double from a tenth of a second, while a loop without waits would make thousands of requests.
    expect(proxy.asked.length - asked).toBeLessThan(20 + (performance.now() - began) / 100);
    proxy.fault(() => undefined);
    await agreed();
  }
  await end();
});

test.concurrent('a watch that is open and silent is noticed, and continued from its version', async () => {
  const { proxy, write, agreed, end } = await follow();
  await eventually(() => proxy.asked.some(({ url }) => isWatch(url)), { what: 'it watches' });
  await write('before', 1);
  await agreed();
  // Nothing ends and nothing fails: only the missing events show it.
  const silenced = proxy.asked.length;
  proxy.mute();
  for (let i = 0; i < 10; i++) await write(`silent-${i}`, i);
  await agreed();
  const since = proxy.asked.slice(silenced).map(({ url }) => url);
  // From the version that it had, so that nothing need be listed and nothing is missed.
  expect(since.length).toBeGreaterThan(0);
  expect(since.every(isWatch)).toBe(true);
  await end();
});

test.concurrent('silence of a server that answers requests does not invalidate the stores, and silence of one that does not answer does', async () => {
  // An answer begins within this time, too, or counts as a failure; a busy machine may stand still for ten seconds.
  const { proxy, health, agreed, end } = await follow(15_000);
  health.length = 0;
  const opened = () => proxy.asked.filter(({ url }) => isWatch(url)).length;
  await eventually(() => opened() > 2, { what: 'the silent watch was opened anew, again and again' });
  expect(health).toEqual([]);
  proxy.fault(({ url }) => (isWatch(url) ? { kind: 'answer', status: 503 } : undefined));
  await eventually(() => health.includes('failing'), { what: 'it says that its view is old' });
  proxy.fault(() => undefined);
  await agreed();
  await end();
});
