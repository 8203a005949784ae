import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { newToken } from '@space/broker-kit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Clients, copyDatabase, findClients } from '../../../testing/postgres/clients.ts';
import type { TestBroker } from '../testing/broker.ts';
import { census } from '../testing/census.ts';
import { copyAll, move, moveWhole } from '../testing/moves.ts';
import { query, sqlstate } from '../testing/postgres.ts';
import { bundleAdministrator, type Program } from '../testing/process.ts';
import { openTwoServers, type TwoServers } from '../testing/servers.ts';

/** The administrator's program is killed at a line of a move, and the same command is given again. */

let two: TwoServers;
let clients: Clients;
let broker: TestBroker;
let program: Program;
beforeAll(async () => {
  clients = await findClients();
  two = await openTwoServers({ major: clients.major });
  broker = await two.start();
  program = await bundleAdministrator();
});
afterAll(async () => {
  await broker?.stop();
  await two?.close();
  program?.remove();
});

let names = 0;
/** A Capsule of two Assistants on a server, with rows in their databases. */
async function furnished(server: 'main' | 'b') {
  names += 1;
  const id = `killed-${names}`;
  const placing = await two.start({ shares: { [server === 'b' ? 'main' : 'b']: { drain: true } } });
  const principal = newToken('dbp').reveal();
  await placing.provisioner.provision(id, principal);
  const urls = new Map<string, string>();
  for (const app of ['one', 'two']) {
    const url: string = (await placing.as(principal).create(id, app)).json.database_url;
    urls.set(app, url);
    await query(url, `CREATE TABLE kept AS SELECT '${app}' AS word, i FROM generate_series(1, 500) i`);
  }
  await placing.stop();
  return { id, principal, urls };
}
type Furnished = Awaited<ReturnType<typeof furnished>>;

/** Runs a command that is to die at a failpoint; returns whether it did. */
async function dying(failpoint: string, hit: number, ...args: readonly string[]): Promise<boolean> {
  const child = spawn(process.execPath, [program.path, 'move', ...args], {
    env: {
      PATH: process.env['PATH'],
      ...two.environment(),
      LOG_LEVEL: 'error',
      FAILPOINT: failpoint,
      FAILPOINT_HIT: String(hit),
    },
  });
  const [complaints, [code, signal]] = await Promise.all([text(child.stderr), once(child, 'close')]);
  if (signal !== 'SIGKILL' && code !== 0) throw new Error(complaints);
  return signal === 'SIGKILL';
}

/** All of its databases are on that server, whole and by their Assistants' own URLs, and nothing is left on the other. */
async function isOn(server: 'main' | 'b', { id, principal, urls }: Furnished): Promise<void> {
  for (const [app, before] of urls) {
    const { json } = await broker.as(principal).create(id, app);
    expect(json).toMatchObject({ created: false });
    expect(two.serverOf(json.database_url)).toBe(server);
    const rows = `SELECT 1 / (count(*) = 500 AND min(word) = '${app}' AND sum(i) = 125250)::int FROM kept`;
    expect(await sqlstate(json.database_url, rows)).toBe('ok');
    if (json.database_url !== before) expect(await sqlstate(before)).not.toBe('ok');
  }
  const other = server === 'b' ? two.main : two.b;
  for (const table of ['capsule', 'database', 'capsule_limits', 'arrival'])
    expect(await two.registry(other, `SELECT FROM broker.${table} WHERE capsule_id = $1`, [id])).toEqual([]);
  for (const one of [two.main, two.b]) {
    expect(await census(one.superuserUrl)).toEqual([]);
    expect(await two.registry(one, 'SELECT FROM broker.arrival')).toEqual([]);
  }
  for (const app of ['one', 'two']) expect((await broker.as(principal).drop(id, app)).status).toBe(200);
}

describe('killed while it begins', () => {
  it.each([
    ['move:after-note', 1],
    ['move:after-cut', 1],
    ['move:after-arrival', 1],
    ['move:after-twin', 2],
    ['move:after-lending', 1],
    ['move:after-lending', 3],
  ] as const)('at %s (%i), it is begun again', async (failpoint, hit) => {
    const capsule = await furnished('main');
    expect(await dying(failpoint, hit, capsule.id, 'b')).toBe(true);
    expect((await broker.as(capsule.principal).create(capsule.id, 'one')).status).toBe(503);
    await moveWhole(broker, clients, capsule.id, 'b');
    await isOn('b', capsule);
  });

  it.each(['move:after-note', 'move:after-cut', 'move:after-twin', 'move:after-lending'])(
    'at %s, it is undone',
    async (failpoint) => {
      const capsule = await furnished('main');
      expect(await dying(failpoint, 1, capsule.id, 'b')).toBe(true);
      expect(await move(broker, capsule.id, '--back')).toEqual({ stays: capsule.id });
      await isOn('main', capsule);
    },
  );

  it('while it drops an earlier copy, it is begun again', async () => {
    const capsule = await furnished('b');
    const { copies = [] } = await move(broker, capsule.id, 'main');
    await copyDatabase(clients, copies.find(({ app }) => app === 'one')!);
    expect(await dying('move:after-twin-dropped', 1, capsule.id, 'main')).toBe(true);
    await moveWhole(broker, clients, capsule.id, 'main');
    await isOn('main', capsule);
  });
});

describe('killed when all is copied', () => {
  async function copied(from: 'main' | 'b', to: 'main' | 'b') {
    const capsule = await furnished(from);
    const { attempt = '', copies = [] } = await move(broker, capsule.id, to);
    await copyAll(clients, copies);
    return { capsule, attempt };
  }

  it.each(['move:after-shut', 'move:after-twins-shut', 'move:before-landing'])(
    'at %s, it is completed by the same command, or copied again, or undone',
    async (failpoint) => {
      for (const next of ['same', 'again', 'back'] as const) {
        const { capsule, attempt } = await copied('main', 'b');
        expect(await dying(failpoint, 1, capsule.id, 'b', '--copied', attempt)).toBe(true);
        expect((await broker.as(capsule.principal).create(capsule.id, 'one')).status).toBe(503);
        if (next === 'same') await move(broker, capsule.id, 'b', '--copied', attempt);
        else if (next === 'again') await moveWhole(broker, clients, capsule.id, 'b');
        else await move(broker, capsule.id, '--back');
        await isOn(next === 'back' ? 'main' : 'b', capsule);
      }
    },
  );

  it.each(['move:after-landing', 'move:before-leaving', 'move:after-leaving'])(
    'at %s, it is on the target, and cannot be undone',
    async (failpoint) => {
      for (const [from, to] of [
        ['main', 'b'],
        ['b', 'main'],
      ] as const) {
        const { capsule, attempt } = await copied(from, to);
        expect(await dying(failpoint, 1, capsule.id, to, '--copied', attempt)).toBe(true);
        expect((await broker.as(capsule.principal).create(capsule.id, 'one')).status).toBe(503);
        await expect(move(broker, capsule.id, '--back')).rejects.toThrow(/already/);
        const args = from === 'main' ? [] : ['--copied', attempt];
        expect(await move(broker, capsule.id, to, ...args)).toEqual({ moved: capsule.id, to });
        await isOn(to, capsule);
      }
    },
  );

  it.each([
    ['move:after-placement', 1],
    ['drop:after-database', 2],
    ['drop:after-role', 1],
    ['drop:before-commit', 3],
    ['move:before-forget', 1],
  ] as const)('at %s (%i), it goes on there, and the same command drops the rest', async (failpoint, hit) => {
    const { capsule, attempt } = await copied('main', 'b');
    expect(await dying(failpoint, hit, capsule.id, 'b', '--copied', attempt)).toBe(true);
    const { json } = await broker.as(capsule.principal).create(capsule.id, 'one');
    expect(two.serverOf(json.database_url)).toBe('b');
    await broker.round('pending drops');
    expect(await move(broker, capsule.id, 'b')).toEqual({ moved: capsule.id, to: 'b' });
    await isOn('b', capsule);
  });
});

describe('killed while it undoes a move', () => {
  it.each([
    'move:after-source-end',
    'move:after-end',
    'move:after-twin-dropped',
    'move:before-return',
    'move:after-return',
  ])('at %s, the same command completes it, or the move is begun again', async (failpoint) => {
    for (const next of ['back', 'on'] as const) {
      const capsule = await furnished('main');
      const { attempt = '', copies = [] } = await move(broker, capsule.id, 'b');
      await copyAll(clients, copies);
      expect(await dying(failpoint, 1, capsule.id, '--back')).toBe(true);
      await expect(move(broker, capsule.id, 'b', '--copied', attempt)).rejects.toThrow(/another copy/);
      if (next === 'back') await move(broker, capsule.id, '--back');
      else await moveWhole(broker, clients, capsule.id, 'b');
      await isOn(next === 'back' ? 'main' : 'b', capsule);
    }
  });
});
