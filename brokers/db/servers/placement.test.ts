import { newToken } from '@space/broker-kit';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Client, client, startTestBroker, type TestBroker } from '../testing/broker.ts';
import { census } from '../testing/census.ts';
import { sqlstate } from '../testing/postgres.ts';
import { bundleBroker } from '../testing/process.ts';
import { openTwoServers, type TwoServers } from '../testing/servers.ts';

/** Which server a Capsule gets, and that it stays there. */

let two: TwoServers;
const running: TestBroker[] = [];
beforeAll(async () => {
  two = await openTwoServers();
});
afterEach(async () => {
  for (const broker of running.splice(0)) await broker.stop();
});
afterAll(() => two.close());

async function start(...options: Parameters<TwoServers['start']>): Promise<TestBroker> {
  const broker = await two.start(...options);
  running.push(broker);
  return broker;
}
const token = () => newToken('dbp').reveal();
const placements = () =>
  two.registry<{ capsule_id: string; server: string }>(
    two.main,
    'SELECT capsule_id, server FROM broker.placement ORDER BY capsule_id',
  );
/** The servers of so many new Capsules. */
async function placed(broker: TestBroker, name: string, count: number): Promise<string[]> {
  const servers: string[] = [];
  for (let i = 0; i < count; i += 1) {
    const reply = await broker.provisioner.provision(`${name}-${i}`, token());
    expect(reply.status).toBe(200);
    servers.push(two.serverOf(reply.json.database_url));
  }
  return servers;
}

it('a Capsule gets its databases on one server, after a restart too, and after it was dropped and finalized', async () => {
  const before = await start();
  const [first, second] = [await before.capsule('first'), await before.capsule('second')];
  const urls = new Map<string, string>();
  for (const [name, own] of [['first', first] as const, ['second', second] as const]) {
    const reply = await own.create(name, 'app');
    expect(reply.status).toBe(200);
    urls.set(name, reply.json.database_url);
    expect(await sqlstate(reply.json.database_url)).toBe('ok');
  }
  expect([...urls.values()].map((url) => two.serverOf(url)).sort()).toEqual(['b', 'main']);
  expect((await placements()).map(({ server }) => server).sort()).toEqual(['b', 'main']);
  await before.stop();
  running.length = 0;

  const after = await start();
  for (const [name, own] of [['first', first] as const, ['second', second] as const]) {
    const again = await after.as(own.token).create(name, 'app');
    expect(again.json).toMatchObject({ database_url: urls.get(name), created: false });
  }
  for (const name of ['first', 'second']) {
    const own = after.as((name === 'first' ? first : second).token);
    expect((await own.dropAll(name)).status).toBe(200);
    expect((await after.provisioner.finalize(name)).status).toBe(200);
    const anew = await after.provisioner.provision(name, token());
    expect(two.serverOf(anew.json.database_url)).toBe(two.serverOf(urls.get(name)!));
  }
  for (const server of [two.main, two.b]) expect(await census(server.superuserUrl)).toEqual([]);
});

it('two brokers that place one Capsule at once choose the same server', async () => {
  const brokers = [await start(), await start()];
  for (let i = 0; i < 8; i += 1) {
    const principal = token();
    const replies = await Promise.all(
      brokers.flatMap(({ provisioner }) => [
        provisioner.provision(`raced-${i}`, principal),
        provisioner.provision(`raced-${i}`, principal),
      ]),
    );
    expect(replies.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect(new Set(replies.map(({ json }) => json.database_url)).size).toBe(1);
  }
  const known = await Promise.all(
    [two.main, two.b].map((server) =>
      two.registry<{ id: string }>(
        server,
        "SELECT capsule_id AS id FROM broker.capsule WHERE capsule_id LIKE 'raced-%'",
      ),
    ),
  );
  expect(
    known
      .flat()
      .map(({ id }) => id)
      .sort(),
  ).toEqual(Array.from({ length: 8 }, (_, i) => `raced-${i}`));
  for (const server of [two.main, two.b]) expect(await census(server.superuserUrl)).toEqual([]);
});

it('a Capsule whose broker is killed right after its placement is provisioned on that server', async () => {
  const program = await bundleBroker();
  try {
    const doomed = await program.spawn({
      ...two.environment({ main: { drain: true } }),
      FAILPOINT: 'place:after-commit',
    });
    const principal = token();
    await expect(
      client(doomed.url, two.mounts.provisioner).provision('cut-off', principal),
    ).rejects.toThrow();
    await doomed.gone;
    expect((await placements()).filter(({ capsule_id }) => capsule_id === 'cut-off')).toEqual([
      { capsule_id: 'cut-off', server: 'b' },
    ]);
    for (const server of [two.main, two.b])
      expect(
        await two.registry(server, "SELECT FROM broker.capsule WHERE capsule_id = 'cut-off'"),
      ).toHaveLength(0);
    // Now b would not be chosen any more.
    const broker = await start({ shares: { b: { drain: true } } });
    const reply = await broker.provisioner.provision('cut-off', principal);
    expect(reply).toMatchObject({ status: 200, json: { created: true } });
    expect(two.serverOf(reply.json.database_url)).toBe('b');
  } finally {
    program.remove();
  }
});

it('a broker without b in its settings creates nothing for a Capsule of b', async () => {
  await two.registry(two.main, "DELETE FROM broker.placement WHERE server = 'b'");
  const old = await startTestBroker(two.mounts);
  running.push(old);
  const broker = await start({ shares: { main: { drain: true } } });
  const principal = token();
  expect((await broker.provisioner.provision('there', principal)).status).toBe(200);
  expect((await old.provisioner.provision('there', principal)).status).toBe(503);
  expect((await old.as(principal).create('there', 'app')).status).toBe(403);
  expect((await broker.as(principal).create('there', 'app')).status).toBe(200);
  // The other way round it is where it was made.
  expect((await old.provisioner.provision('here', token())).status).toBe(200);
  const [row] = await two.registry<{ server: string }>(
    two.main,
    "SELECT server FROM broker.placement WHERE capsule_id = 'here'",
  );
  expect(row).toBeUndefined();
});

describe('new Capsules', () => {
  it('are distributed by weight', async () => {
    const counts = async (server: 'main' | 'b') => {
      const [row] = await two.registry<{ n: number }>(
        two[server],
        "SELECT count(*)::int AS n FROM broker.capsule WHERE state <> 'finalized'",
      );
      return row!.n;
    };
    const heavy = await start({ shares: { main: { weight: 1 }, b: { weight: 1_000 } } });
    expect(await placed(heavy, 'heavy', 4)).toEqual(['b', 'b', 'b', 'b']);
    const even = await start({ shares: {} });
    const missing = (await counts('b')) - (await counts('main'));
    expect(await placed(even, 'even', missing)).toEqual(Array.from({ length: missing }, () => 'main'));
    expect((await placed(even, 'more', 4)).sort()).toEqual(['b', 'b', 'main', 'main']);
  });

  it('are not placed on a draining server, whose own continue, and on none if all are draining', async () => {
    const broker = await start({ shares: { main: { drain: true } } });
    const there = await broker.capsule('stays');
    const draining = await start({ shares: { b: { drain: true } } });
    expect(await placed(draining, 'elsewhere', 3)).toEqual(['main', 'main', 'main']);
    const reply = await draining.as(there.token).create('stays', 'app');
    expect(two.serverOf(reply.json.database_url)).toBe('b');
    const none = await start({ shares: { main: { drain: true }, b: { drain: true } } });
    expect(await none.provisioner.provision('nowhere', token())).toMatchObject({
      status: 507,
      json: { error: { code: 'quota_exceeded' } },
    });
  });
});

describe('a principal', () => {
  /** A Capsule on each server, with its client. */
  async function onBoth(broker: TestBroker, name: string) {
    const found = new Map<string, Client>();
    for (let i = 0; found.size < 2; i += 1) {
      const id = `${name}-${i}`;
      const own = await broker.capsule(id);
      const { json } = await own.create(id, 'app');
      found.set(two.serverOf(json.database_url), own);
    }
    return { main: found.get('main')!, b: found.get('b')! };
  }

  it('of a Capsule of any server is refused for another Capsule, also after it was retired', async () => {
    const broker = await start();
    const { main, b } = await onBoth(broker, 'mine');
    for (const taken of [main.token!, b.token!])
      for (const id of ['thief-1', 'thief-2'])
        expect((await broker.provisioner.provision(id, taken)).status).toBe(409);
    const gone = await broker.capsule('retires');
    await gone.dropAll('retires');
    expect((await broker.provisioner.provision('thief-3', gone.token!)).status).toBe(409);
    // As after a restore of main's registry alone: its server still says so.
    await two.registry(two.main, 'DELETE FROM broker.placed_principal');
    for (const taken of [main.token!, b.token!, gone.token!])
      for (const drain of ['main', 'b'] as const) {
        const other = await start({ shares: { [drain]: { drain: true } } });
        expect((await other.provisioner.provision(`late-${drain}`, taken)).status).toBe(409);
      }
  });

  it('that two servers know is refused', async () => {
    const broker = await start();
    const { main } = await onBoth(broker, 'twice');
    const [row] = await two.registry<{ capsule_id: string }>(
      two.main,
      "SELECT capsule_id FROM broker.capsule WHERE capsule_id LIKE 'twice-%' AND state = 'active' LIMIT 1",
    );
    expect((await main.create(row!.capsule_id, 'app')).status).toBe(200);
    const [{ principal } = { principal: Buffer.alloc(0) }] = await two.registry<{ principal: Buffer }>(
      two.main,
      'SELECT principal FROM broker.capsule WHERE capsule_id = $1',
      [row!.capsule_id],
    );
    await two.registry(
      two.b,
      "INSERT INTO broker.capsule (capsule_id, state, life, principal) VALUES ('stray', 'active', 1, $1)",
      [principal],
    );
    expect((await main.create(row!.capsule_id, 'app')).status).toBe(403);
    await two.registry(two.b, "DELETE FROM broker.capsule WHERE capsule_id = 'stray'");
    expect((await main.create(row!.capsule_id, 'app')).status).toBe(200);
  });
});

it('requests for a Capsule that is being moved are told to retry', async () => {
  const broker = await start();
  const own = await broker.capsule('moves');
  await two.registry(two.main, "UPDATE broker.placement SET moving_to = 'b' WHERE capsule_id = 'moves'");
  for (const reply of [await own.create('moves', 'app'), await broker.provisioner.finalize('moves')]) {
    expect(reply).toMatchObject({ status: 503, json: { error: { code: 'unavailable' } } });
    expect(reply.headers.get('retry-after')).toBe('10');
  }
  await two.registry(two.main, 'UPDATE broker.placement SET moving_to = NULL');
  expect((await own.create('moves', 'app')).status).toBe(200);
});
