import { newToken } from '@space/broker-kit';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { COMMANDS } from '../../../brokers/db/commands.ts';
import type { TestBroker } from '../../../brokers/db/testing/broker.ts';
import { move, moveWhole } from '../../../brokers/db/testing/moves.ts';
import { intoDatabase, query, sqlstate } from '../../../brokers/db/testing/postgres.ts';
import { openTwoServers, type TwoServers } from '../../../brokers/db/testing/servers.ts';
import { type Clients, findClients } from '../../../testing/postgres/clients.ts';
import { finish } from '../../space/kube.ts';
import type { Place } from '../place.ts';
import { requireHere } from './moment.ts';
import { databasesOf, serverOf } from './queries.ts';

/**
 * Where a Capsule's databases are, according to the registry of the first of two real servers, at any moment of a
 * move.
 */

let two: TwoServers;
let clients: Clients;
let broker: TestBroker;
/** The first server, in the form in which a restore queries it. */
let main: Place;
let dies = '';
const made: string[] = [];

beforeAll(async () => {
  clients = await findClients();
  two = await openTwoServers({ major: clients.major });
  broker = await two.start({
    failpoint: (name) => {
      if (name === dies) throw new Error(`cut short at ${name}`);
    },
  });
  main = placeOf(two.main.superuserUrl);
});
afterEach(async () => {
  for (const capsule of made.splice(0))
    await COMMANDS['drop']?.run(broker.servers, 'd'.repeat(32), [capsule], async () => '');
});
afterAll(async () => {
  await broker?.stop();
  await two?.close();
});

/** Connects by TCP and a password, where a restore uses the account's socket in a pod. */
function placeOf(superuserUrl: string): Place {
  const { hostname, port, password } = new URL(superuserUrl);
  const env = { ...clients.env, PGPORT: port, PGPASSWORD: decodeURIComponent(password) };
  const assigned = Object.entries(env).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}=${value}`],
  );
  return {
    kube: {
      run: (args, input) => {
        const program = args.slice(args.indexOf('--') + 1);
        return finish(
          'env',
          [...assigned, ...program.map((one) => (one === '/run/postgresql' ? hostname : one))],
          input,
        );
      },
    },
    ...{ namespace: 'home-services', pod: 'scratch', container: 'postgres' },
  };
}

let names = 0;
async function capsuleOn(server: 'main' | 'b'): Promise<string> {
  names += 1;
  const id = `${server}-${names}`;
  const placing = await two.start({ shares: { [server === 'b' ? 'main' : 'b']: { drain: true } } });
  const principal = newToken('dbp').reveal();
  await placing.provisioner.provision(id, principal);
  for (const app of ['one', 'two'])
    await query(
      (await placing.as(principal).create(id, app)).json.database_url,
      'CREATE TABLE kept AS SELECT generate_series(1, 500) i',
    );
  await placing.stop();
  made.push(id);
  return id;
}

/**
 * How many databases of the Capsule are complete on the first server, by its own registry: those that a restore would
 * bring back.
 */
async function wholeOnMain(capsule: string): Promise<number> {
  let whole = 0;
  for (const { name } of await databasesOf(main, capsule)) {
    // A restore opens the copy of a closed database for itself; here a closed database stays closed.
    const [{ allowed } = { allowed: false }] = await query<{ allowed: boolean }>(
      two.main.superuserUrl,
      'SELECT datallowconn AS allowed FROM pg_database WHERE datname = $1',
      [name],
    );
    const allow = (is: boolean) =>
      query(two.main.superuserUrl, `ALTER DATABASE ${name} WITH ALLOW_CONNECTIONS ${is}`);
    await allow(true);
    const rows = await sqlstate(
      intoDatabase(two.main.superuserUrl, name),
      'SELECT 1 / (count(*) = 500)::int FROM kept',
    );
    await allow(allowed);
    if (rows === 'ok') whole += 1;
  }
  return whole;
}

describe('a Capsule that was on the first server', () => {
  it('is restored, and one that was on another is refused by name instead of restored without its rows', async () => {
    const [here, elsewhere] = [await capsuleOn('main'), await capsuleOn('b')];
    await requireHere(main, here);
    expect(await wholeOnMain(here)).toBe(2);
    expect(await databasesOf(main, elsewhere)).toEqual([]);
    await expect(requireHere(main, elsewhere)).rejects.toThrow(
      new RegExp(`Capsule ${elsewhere} were on the PostgreSQL server b at that moment.*Nothing was changed$`),
    );
    expect(await serverOf(main, 'nobody')).toBe('main');
  });

  it('is found in a registry that is older than several servers', async () => {
    const capsule = await capsuleOn('main');
    const registry = (text: string) => two.registry(two.main, text);
    await registry(
      'ALTER TABLE broker.departure RENAME TO later; ALTER TABLE broker.placement RENAME TO latest',
    );
    expect(await serverOf(main, capsule)).toBe('main');
    await registry(
      'ALTER TABLE broker.later RENAME TO departure; ALTER TABLE broker.latest RENAME TO placement',
    );
  });
});

const LINES = [
  'move:after-note',
  'move:after-cut',
  'move:after-arrival',
  'move:after-lending',
  'move:after-shut',
  'move:before-landing',
  'move:after-landing',
  'move:before-leaving',
  'move:after-leaving',
  'move:before-forget',
];

describe.each([
  ['main', 'b'],
  ['b', 'main'],
] as const)('a move from %s to %s', (from, to) => {
  it.each(LINES)(
    'that is interrupted at %s has the Capsule where its databases are complete',
    async (line) => {
      const capsule = await capsuleOn(from);
      dies = line;
      await expect(moveWhole(broker, clients, capsule, to)).rejects.toThrow(`cut short at ${line}`);
      dies = '';
      const server = await serverOf(main, capsule);
      expect(await wholeOnMain(capsule)).toBe(server === 'main' ? 2 : 0);
      await moveWhole(broker, clients, capsule, to);
      expect(await serverOf(main, capsule)).toBe(to);
      expect(await wholeOnMain(capsule)).toBe(to === 'main' ? 2 : 0);
    },
  );
});

it('after an undone move the Capsule is where it was, and after a later move where it came to', async () => {
  const capsule = await capsuleOn('main');
  await move(broker, capsule, 'b');
  await move(broker, capsule, '--back');
  expect(await serverOf(main, capsule)).toBe('main');
  for (const to of ['b', 'main', 'b'] as const) {
    await moveWhole(broker, clients, capsule, to);
    expect(await serverOf(main, capsule)).toBe(to);
  }
});
