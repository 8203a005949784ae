import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newToken } from '@space/broker-kit';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { COMMANDS } from '../commands.ts';
import { type Client, startTestBroker, type TestBroker } from '../testing/broker.ts';
import { intoDatabase, query, sqlstate } from '../testing/postgres.ts';
import { entryOf, openTwoServers, type TwoServers } from '../testing/servers.ts';

/** Servers that are unavailable, unsuitable, missing or identical; and the administrator's commands over all of them. */

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
let names = 0;
/** A new Capsule on this server, by a broker that puts none on the other one. */
async function capsuleOn(server: 'main' | 'b'): Promise<{ readonly id: string; readonly own: Client }> {
  names += 1;
  const id = `on-${server}-${names}`;
  const broker = await two.start({ shares: { [server === 'b' ? 'main' : 'b']: { drain: true } } });
  const { token: principal } = await broker.capsule(id);
  await broker.stop();
  return { id, own: { token: principal } as Client };
}
const lines = (text: unknown) =>
  String(text)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
const ready = (broker: TestBroker) => broker.servers.all.map((server) => server.state().kind);
const untilReady = (broker: TestBroker) =>
  eventually(() => ready(broker).every((kind) => kind === 'ready'), { what: 'both servers to be used' });

describe('while b is down', () => {
  it('Capsules of main continue, requests for those of b are told to retry, and new ones are placed on main', async () => {
    const [here, there] = [await capsuleOn('main'), await capsuleOn('b')];
    const broker = await start();
    const [main, b] = [broker.as(here.own.token), broker.as(there.own.token)];
    expect((await b.create(there.id, 'app')).status).toBe(200);
    await two.b.stop();
    try {
      await eventually(() => ready(broker)[1] === 'unreachable', { what: 'the outage to be seen' });
      const begun = performance.now();
      expect((await main.create(here.id, 'app')).status).toBe(200);
      expect((await main.drop(here.id, 'app')).status).toBe(200);
      const refused = await b.create(there.id, 'app');
      expect(refused).toMatchObject({ status: 503, json: { error: { code: 'unavailable' } } });
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
      expect((await broker.as(token()).create(here.id, 'app')).status).toBe(503);
      const fresh = await broker.provisioner.provision(`new-${names}`, token());
      expect(two.serverOf(fresh.json.database_url)).toBe('main');
      // No request waited for an unavailable server.
      expect(performance.now() - begun).toBeLessThan(60_000);
      for (const round of ['drift', 'pending drops', 'spares', 'sizes']) await broker.round(round);
      await expect(broker.round('drift (b)')).rejects.toThrow();
      expect(await broker.metric('space_db_server_ready')).toEqual(
        new Map([
          ['server="main"', 1],
          ['server="b"', 0],
        ]),
      );
    } finally {
      await two.b.start();
    }
    await untilReady(broker);
    expect((await b.create(there.id, 'app')).json.created).toBe(false);
    await broker.round('drift (b)');
  });

  it('the broker starts without it, and uses it once it is up', async () => {
    const there = await capsuleOn('b');
    await two.b.stop();
    let broker: TestBroker;
    try {
      broker = await start();
      const reply = await broker.as(there.own.token).create(there.id, 'app');
      expect(reply.status).toBe(503);
      const fresh = await broker.provisioner.provision(`early-${names}`, token());
      expect(two.serverOf(fresh.json.database_url)).toBe('main');
    } finally {
      await two.b.start();
    }
    await untilReady(broker);
    expect((await broker.as(there.own.token).create(there.id, 'app')).status).toBe(200);
    // A server that starts is another reason than one that is down, and each is told once.
    const told = broker.log.filter((line) => line.includes('the server is not used'));
    expect(told.length).toBeGreaterThan(0);
    expect(new Set(told.map((line) => JSON.parse(line).msg)).size).toBe(told.length);
  });
});

it('while main is down known Capsules of b continue, and none is placed', async () => {
  const there = await capsuleOn('b');
  const broker = await start();
  const own = broker.as(there.own.token);
  expect((await own.create(there.id, 'app')).status).toBe(200);
  await two.main.stop();
  try {
    await eventually(() => ready(broker)[0] === 'unreachable', { what: 'the outage to be seen' });
    expect((await own.create(there.id, 'more')).status).toBe(200);
    expect((await own.drop(there.id, 'more')).status).toBe(200);
    expect((await broker.provisioner.provision('later', token())).status).toBe(503);
  } finally {
    await two.main.start();
  }
  await untilReady(broker);
  expect((await broker.provisioner.provision('later', token())).status).toBe(200);
});

it('an unsuitable server is not used, with a reason in the log, until it is suitable', async () => {
  const onB = (text: string) => query(two.b.superuserUrl, text);
  await onB('GRANT CONNECT ON DATABASE postgres TO PUBLIC');
  const broker = await start({ shares: { main: { weight: 0.01 } } });
  try {
    // It may have been too late for the first attempt on a busy machine, which is another reason.
    const why = 'PUBLIC may connect to postgres';
    const state = () => broker.servers.all[1]!.state();
    await eventually(() => state().kind === 'unfit', { what: 'the reason to be found' });
    expect(state()).toMatchObject({ why: expect.stringContaining(why) });
    const told = () =>
      broker.log.filter((line) => line.includes('the server is not used') && line.includes(why));
    await eventually(() => told().length > 0, { what: 'the line of the log' });
    expect(told()).toHaveLength(1);
    expect((await broker.metric('space_db_server_ready')).get('server="b"')).toBe(0);
    const fresh = await broker.provisioner.provision(`fit-${names}`, token());
    expect(two.serverOf(fresh.json.database_url)).toBe('main');
  } finally {
    await onB('REVOKE CONNECT ON DATABASE postgres FROM PUBLIC');
  }
  await untilReady(broker);
  const next = await broker.provisioner.provision('fits', token());
  expect(two.serverOf(next.json.database_url)).toBe('b');
});

describe('start-up refuses', () => {
  it('a configuration that lacks a server with Capsules', async () => {
    await capsuleOn('b');
    await expect(startTestBroker(two.mounts)).rejects.toThrow(
      /^SERVERS_FILE: servers that Capsules are on are missing: b \(\d+ Capsules\)$/,
    );
  });

  it.each([
    ['one registry twice', 'space_registry', /main and c are one server: they have one registry/],
    ['two registries of one server', 'second_registry', /main and c are one server, or .* system identifier/],
  ])('%s', async (_, database, why) => {
    if (database !== 'space_registry') {
      await query(two.main.superuserUrl, `CREATE DATABASE ${database} OWNER space_broker`);
      await query(two.main.superuserUrl, `REVOKE ALL ON DATABASE ${database} FROM PUBLIC`);
    }
    const path = join(two.mounts.directory, `${database}.json`);
    const url = intoDatabase(two.main.brokerUrl, database);
    const servers = [
      entryOf(two.mounts, 'b', two.b.brokerUrl, two.b.port),
      entryOf(two.mounts, 'c', url, two.main.port),
    ];
    writeFileSync(path, JSON.stringify({ servers }));
    await expect(startTestBroker(two.mounts, { environment: { SERVERS_FILE: path } })).rejects.toThrow(why);
  });
});

it('Capsules of b without a placement, as after a restore of main, get one when b is opened', async () => {
  const there = await capsuleOn('b');
  await two.registry(two.main, 'DELETE FROM broker.placement WHERE capsule_id = $1', [there.id]);
  const broker = await start();
  expect((await broker.as(there.own.token).create(there.id, 'app')).status).toBe(200);
  const noted = await two.registry(two.main, 'SELECT server FROM broker.placement WHERE capsule_id = $1', [
    there.id,
  ]);
  expect(noted).toEqual([{ server: 'b' }]);
});

it("a password in b's file is read again when it changes", async () => {
  const there = await capsuleOn('b');
  const broker = await start();
  const own = broker.as(there.own.token);
  await query(two.b.superuserUrl, "ALTER ROLE space_broker PASSWORD 'changed'");
  const changed = new URL(two.b.brokerUrl);
  changed.password = 'changed';
  try {
    entryOf(two.mounts, 'b', changed.href, two.b.port);
    await query(
      two.b.superuserUrl,
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'space_broker'",
    );
    await eventually(async () => (await own.create(there.id, 'app')).status === 200, {
      what: 'the new password to be taken',
    });
  } finally {
    const { password } = new URL(two.b.brokerUrl);
    await query(two.b.superuserUrl, `ALTER ROLE space_broker PASSWORD '${decodeURIComponent(password)}'`);
    entryOf(two.mounts, 'b', two.b.brokerUrl, two.b.port);
  }
});

describe('the administrator', () => {
  const run = async (broker: TestBroker, name: string, args: readonly string[] = [], input = '') =>
    COMMANDS[name]!.run(broker.servers, 'a'.repeat(32), args, async () => input);

  it('lists what is on each server, and acts on the one that has the Capsule', async () => {
    const [here, there] = [await capsuleOn('main'), await capsuleOn('b')];
    const broker = await start();
    const own = broker.as(there.own.token);
    const url: string = (await own.create(there.id, 'app')).json.database_url;
    const listed = lines(await run(broker, 'list'));
    const serverOf = (id: string) => listed.find(({ capsule }) => capsule === id)?.server;
    expect([serverOf(here.id), serverOf(there.id)]).toEqual(['main', 'b']);
    expect(lines(await run(broker, 'list', ['b'])).every(({ server }) => server === 'b')).toBe(true);
    await expect(run(broker, 'list', ['none'])).rejects.toThrow('no such server');

    const servers = lines(await run(broker, 'servers'));
    expect(servers.map(({ name, state }) => [name, state])).toEqual([
      ['main', 'ready'],
      ['b', 'ready'],
    ]);
    expect(servers[1]).toMatchObject({
      weight: 1,
      drain: false,
      capsules: expect.any(Number),
      databases: expect.any(Number),
      connections: { promised: expect.any(Number), capacity: expect.any(Number) },
    });

    await run(broker, 'close', [there.id]);
    expect(await sqlstate(url)).not.toBe('ok');
    await run(broker, 'open', [there.id]);
    expect(await sqlstate(url)).toBe('ok');
    const all = (await run(broker, 'rotate', ['--all'])) as { marked: number };
    expect(all.marked).toBeGreaterThanOrEqual(3);
    const rotated: string = (await own.create(there.id, 'app')).json.database_url;
    expect(rotated).not.toBe(url);

    const replaced = token();
    expect(await run(broker, 'replace-principal', [there.id], `${replaced}\n`)).toEqual({ replaced: true });
    expect((await own.create(there.id, 'app')).status).toBe(403);
    expect((await broker.as(replaced).create(there.id, 'app')).status).toBe(200);
    await expect(run(broker, 'replace-principal', [here.id], replaced)).rejects.toThrow('in use');

    expect(await run(broker, 'drop', [there.id])).toMatchObject({
      dropped: [expect.any(String), expect.any(String)],
    });
    expect(await sqlstate(rotated)).not.toBe('ok');
    await expect(run(broker, 'drop', ['nobody'])).rejects.toThrow('no such Capsule');
  });

  it('adopts and drops databases that the registry of one server does not know, and none that two servers have', async () => {
    const there = await capsuleOn('b');
    const broker = await start();
    const own = broker.as(there.own.token);
    const url: string = (await own.create(there.id, 'app')).json.database_url;
    const { username: name } = new URL(url);
    await two.registry(two.b, 'DELETE FROM broker.database WHERE name = $1', [name]);
    expect(lines(await run(broker, 'unknown'))).toEqual([{ server: 'b', name, database: true, role: true }]);
    expect(await run(broker, 'adopt', [name, there.id, 'app'])).toEqual({ adopted: name });
    expect(lines(await run(broker, 'unknown'))).toEqual([]);

    const stray = `spc_${'0'.repeat(40)}`;
    for (const server of [two.main, two.b]) await query(server.superuserUrl, `CREATE ROLE ${stray}`);
    await expect(run(broker, 'drop-unknown', [stray])).rejects.toThrow('several servers have it');
    await query(two.main.superuserUrl, `DROP ROLE ${stray}`);
    await query(two.b.superuserUrl, `GRANT ${stray} TO space_broker WITH ADMIN OPTION`);
    expect(await run(broker, 'drop-unknown', [stray])).toEqual({ dropped: stray });
  });

  it('gets an error about an unavailable server, whose Capsules cannot be administered', async () => {
    const there = await capsuleOn('b');
    const broker = await start();
    await two.b.stop();
    try {
      await eventually(() => ready(broker)[1] === 'unreachable', { what: 'the outage to be seen' });
      expect(lines(await run(broker, 'servers'))[1]).toMatchObject({
        name: 'b',
        state: 'unreachable',
        why: 'it does not answer',
      });
      for (const [name, args] of [
        ['list', []],
        ['close', [there.id]],
        ['rotate', ['--all']],
      ] as const)
        await expect(run(broker, name, args)).rejects.toThrow('server b: it does not answer');
      expect(lines(await run(broker, 'list', ['main'])).length).toBeGreaterThan(0);
    } finally {
      await two.b.start();
    }
  });
});

it('a single server is not queried for placements, which its registry does not need', async () => {
  const alone = await openTwoServers();
  const broker = await startTestBroker(alone.mounts);
  try {
    const own = await broker.capsule('alone');
    // Only a registration of a Capsule looks there, in the registry itself.
    await alone.registry(alone.main, 'DROP TABLE broker.placement, broker.placed_principal');
    expect((await broker.provisioner.provision('alone', own.token!)).status).toBe(200);
    expect((await own.create('alone', 'app')).status).toBe(200);
    expect((await own.drop('alone', 'app')).status).toBe(200);
    expect((await own.dropAll('alone')).status).toBe(200);
    expect((await broker.provisioner.finalize('alone')).status).toBe(200);
    const [row] = lines(await COMMANDS['servers']!.run(broker.servers, 'a'.repeat(32), [], async () => ''));
    expect(row).toMatchObject({ name: 'main', state: 'ready' });
    expect([...(await broker.metric('space_db_spares')).keys()]).toEqual(['']);
    expect((await broker.metric('space_db_server_ready')).size).toBe(0);
  } finally {
    await broker.stop();
    await alone.close();
  }
});
