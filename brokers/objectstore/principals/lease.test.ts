import { newToken } from '@space/broker-kit';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client } from '../testing/broker.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';

/** Two replicas: one is asked to end access, and the other is used without a pause meanwhile. */

const plenty = '1000000';
const environment = { OBJECT_REQUESTS_PER_SECOND: plenty, OBJECT_REQUESTS_BURST: plenty };

let fixture: Fixture;
let other: Awaited<ReturnType<Fixture['replica']>>;
beforeAll(async () => {
  fixture = await openFixture({ environment });
  other = await fixture.replica({ environment });
});
afterAll(async () => {
  await other?.stop();
  await fixture?.close();
});

/** Uses a principal at the other replica until `act` was answered and for some time longer. */
async function usedWhile(token: string, act: () => Promise<{ readonly status: number }>) {
  const requests: { readonly begun: number; readonly status: number }[] = [];
  let using = true;
  const user = async () => {
    while (using) {
      const begun = performance.now();
      const response = await fetch(`${other.dataUrl}/v1/objects/data/nothing`, {
        headers: { authorization: `Bearer ${token}` },
      });
      await response.arrayBuffer();
      requests.push({ begun, status: response.status });
    }
  };
  const users = Promise.all([user(), user()]);
  while (!requests.some(({ status }) => status === 404)) await new Promise(setImmediate);
  expect((await act()).status).toBe(200);
  const answered = performance.now();
  const after = () => requests.filter(({ begun }) => begun > answered);
  while (after().length < 20) await new Promise(setImmediate);
  using = false;
  await users;
  return new Set(after().map(({ status }) => status));
}

let count = 0;
async function workload(): Promise<{ capsule: Client; id: string; token: string }> {
  count += 1;
  const id = `lease-${count}`;
  const capsule = await fixture.broker.capsule(id);
  return { capsule, id, token: await fixture.broker.workload(capsule, id, 'app') };
}

/** The principal is refused; a caller with too many requests gets that answer instead. */
const REFUSED = [403, 429];

test.each<[name: string, act: (capsule: Client, id: string) => Promise<{ readonly status: number }>]>([
  ['another principal in its place', (capsule, id) => capsule.create(id, 'app', newToken('osw').reveal())],
  [
    'a retry of that, answered before the first',
    (capsule, id) => {
      const principal = newToken('osw').reveal();
      return Promise.race([capsule.create(id, 'app', principal), capsule.create(id, 'app', principal)]);
    },
  ],
  ['the drop of its workload', (capsule, id) => capsule.drop(id, 'app')],
  ['the drop of its Capsule', (capsule, id) => capsule.dropAll(id)],
])('no replica accepts a principal once %s was answered', async (_, act) => {
  const { capsule, id, token } = await workload();
  const statuses = await usedWhile(token, () => act(capsule, id));
  expect(REFUSED).toEqual(expect.arrayContaining([...statuses]));
});
