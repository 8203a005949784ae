import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Clients, copyDatabase, findClients } from '../../../testing/postgres/clients.ts';
import type { TestBroker } from '../testing/broker.ts';
import { census } from '../testing/census.ts';
import { move } from '../testing/moves.ts';
import { sqlstate } from '../testing/postgres.ts';
import { openTwoServers, type TwoServers } from '../testing/servers.ts';

/** Servers of two versions of PostgreSQL, of which b has the later one. */

/** By the version of the programs here, which is never that of b. */
const VERSIONS = { '15': ['15', '16'], '16': ['16', '17'], '17': ['17', '18'], '18': ['16', '17'] } as const;

let clients: Clients;
let two: TwoServers;
let broker: TestBroker;
beforeAll(async () => {
  clients = await findClients();
  const [major, majorOfB] = VERSIONS[clients.major];
  two = await openTwoServers({ major, majorOfB });
  broker = await two.start();
});
afterAll(async () => {
  await broker?.stop();
  await two?.close();
});

/** Capsules until there is one on each. */
async function onBoth() {
  const found = new Map<string, { id: string; url: string }>();
  for (let i = 0; found.size < 2; i += 1) {
    const id = `capsule-${i}`;
    const own = await broker.capsule(id);
    const url: string = (await own.create(id, 'app')).json.database_url;
    found.set(two.serverOf(url), { id, url });
  }
  return { main: found.get('main')!, b: found.get('b')! };
}

it('a Capsule is not moved to a server of an earlier version, and to a later one with the programs of that version', async () => {
  const { main, b } = await onBoth();
  await expect(move(broker, b.id, 'main')).rejects.toThrow(
    /^server main has PostgreSQL \d+, and b \d+: upgrade it first$/,
  );
  expect(await sqlstate(b.url)).toBe('ok');

  const { copies = [] } = await move(broker, main.id, 'b');
  for (const copy of copies)
    await expect(copyDatabase(clients, copy)).rejects.toThrow(
      /^pg_dump has version \d+; it needs that of the target/,
    );
  await move(broker, main.id, '--back');
  expect(await sqlstate(main.url)).toBe('ok');
  for (const server of [two.main, two.b]) expect(await census(server.superuserUrl)).toEqual([]);
});
