import { createServer } from 'node:net';
import { digestOf, newToken, Secret } from '@space/broker-kit';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { type Clients, findClients } from '../../../testing/postgres/clients.ts';
import type { EmbeddedServer } from '../../../testing/postgres/server.ts';
import { COMMANDS } from '../commands.ts';
import type { Context } from '../context.ts';
import { createApp } from '../operations/provision.ts';
import type { TestBroker } from '../testing/broker.ts';
import { census } from '../testing/census.ts';
import { copyAll, move, moveWhole } from '../testing/moves.ts';
import { connect, intoDatabase, query, sqlstate } from '../testing/postgres.ts';
import { openTwoServers, type TwoServers } from '../testing/servers.ts';

/** One command takes a move back while another one ends it. Each order is forced by the locks that both wait for. */

let two: TwoServers;
let clients: Clients;
let broker: TestBroker;
/** Does not reach b, which the others do. */
let cutOff: TestBroker;
beforeAll(async () => {
  clients = await findClients();
  two = await openTwoServers({ major: clients.major });
  broker = await two.start({ shares: { main: { weight: 1_000 } } });
  cutOff = await two.start({ portOfB: await unusedPort() });
});
afterEach(async () => {
  for (const server of [two.main, two.b]) expect(await census(server.superuserUrl)).toEqual([]);
});
afterAll(async () => {
  await cutOff?.stop();
  await broker?.stop();
  await two?.close();
});

async function unusedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

let names = 0;
/** A Capsule on main with one database. */
async function created() {
  names += 1;
  const id = `raced-${names}`;
  const principal = newToken('dbp').reveal();
  await broker.provisioner.provision(id, principal);
  const url: string = (await broker.as(principal).create(id, 'app')).json.database_url;
  expect(two.serverOf(url)).toBe('main');
  return { id, principal, url };
}

/** A Capsule on main whose databases are copied to b. */
async function copied() {
  const { id, principal, url } = await created();
  await query(url, "CREATE TABLE kept AS SELECT 'kept' AS word");
  const { attempt = '', copies } = await move(broker, id, 'b');
  await copyAll(clients, copies);
  return { id, principal, url, attempt };
}
type Copied = Awaited<ReturnType<typeof copied>>;

/** Locks a Capsule on a server; changes of it there wait for the lock, in the order of arrival. */
async function hold(server: EmbeddedServer, id: string) {
  const holder = await connect(intoDatabase(server.superuserUrl, 'space_registry'));
  await holder.query('SELECT pg_advisory_lock(hashtextextended($1, 7305181003))', [id]);
  return {
    untilWaiting: (number: number) =>
      eventually(
        async () => {
          const waiting = await two.registry(
            server,
            `SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
               AND classid::bigint << 32 | objid::bigint = hashtextextended($1, 7305181003)`,
            [id],
          );
          return waiting.length === number;
        },
        { what: `${number} to wait for the place` },
      ),
    release: () => holder.end(),
  };
}

/** A broker whose commands are cut short at a line. */
const doomedAt = (line: string) =>
  two.start({
    failpoint: (name) => {
      if (name === line) throw new Error('cut short');
    },
  });

const outcome = (act: Promise<unknown>) =>
  act.then(
    () => 'done',
    (error: Error) => error.message,
  );

/** Only one server has it, with its own URL, and it continues there. */
async function isOnlyOn(server: 'main' | 'b', { id, principal, url }: Copied): Promise<void> {
  const there = Object.assign(new URL(url), { port: String(two.b.port) }).href;
  const read = 'SELECT word FROM kept';
  expect(await Promise.all([sqlstate(url, read), sqlstate(there, read)])).toEqual(
    server === 'main' ? ['ok', expect.not.stringMatching(/^ok$/)] : [expect.not.stringMatching(/^ok$/), 'ok'],
  );
  const { json } = await broker.as(principal).create(id, 'app');
  expect(json.created).toBe(false);
  expect(two.serverOf(json.database_url)).toBe(server);
}

describe('a command that undoes a move, and does not reach the target', () => {
  it('leaves the Capsule to a command that began to switch it before', async () => {
    const capsule = await copied();
    const { id, attempt } = capsule;
    const [atSource, atTarget] = [await hold(two.main, id), await hold(two.b, id)];
    const landing = outcome(move(broker, id, 'b', '--copied', attempt));
    await atSource.untilWaiting(1);
    const back = outcome(move(cutOff, id, '--back'));
    await atSource.untilWaiting(2);
    await atSource.release();
    expect(await back).toMatch(/may have the Capsule already/);
    expect(await sqlstate(capsule.url)).not.toBe('ok');
    await atTarget.release();
    expect(await landing).toBe('done');
    await isOnlyOn('b', capsule);
  });

  it('prevents a command from switching it afterwards', async () => {
    const capsule = await copied();
    const { id, attempt } = capsule;
    const [atSource, atTarget] = [await hold(two.main, id), await hold(two.b, id)];
    const back = outcome(move(cutOff, id, '--back'));
    await atSource.untilWaiting(1);
    const landing = outcome(move(broker, id, 'b', '--copied', attempt));
    await atSource.untilWaiting(2);
    await atSource.release();
    expect(await landing).toMatch(/another copy was begun since, or the move was taken back/);
    expect(await back).toBe('done');
    await atTarget.release();
    await isOnlyOn('main', capsule);
    expect(await move(broker, id, '--back')).toEqual({ stays: id });
  });

  it('leaves it to a command that is still switching it, although another copy was begun since and interrupted', async () => {
    const capsule = await copied();
    const { id, attempt } = capsule;
    const doomed = await doomedAt('move:after-cut');
    const atTarget = await hold(two.b, id);
    const landing = outcome(move(broker, id, 'b', '--copied', attempt));
    await atTarget.untilWaiting(1);
    await expect(move(doomed, id, 'b')).rejects.toThrow('cut short');
    const back = await outcome(move(cutOff, id, '--back'));
    await atTarget.release();
    await doomed.stop();
    expect(await landing).toBe('done');
    expect(back).toMatch(/may have the Capsule already/);
    await isOnlyOn('b', capsule);
  });
});

describe('a command that undoes a move', () => {
  it('opens nothing if another copy was begun in the meantime', async () => {
    const capsule = await copied();
    const { id, attempt } = capsule;
    const doomed = await doomedAt('move:after-cut');
    const atTarget = await hold(two.b, id);
    const back = outcome(move(broker, id, '--back'));
    await atTarget.untilWaiting(1);
    // The source is the first to know.
    await expect(move(broker, id, 'b', '--copied', attempt)).rejects.toThrow(/another copy was begun since/);
    await expect(move(doomed, id, 'b')).rejects.toThrow('cut short');
    await atTarget.release();
    await doomed.stop();
    expect(await back).toMatch(/another copy was begun/);
    expect(await sqlstate(capsule.url)).not.toBe('ok');
    expect(await moveWhole(broker, clients, id, 'b')).toEqual({ moved: id, to: 'b' });
    await isOnlyOn('b', capsule);
  });

  it('leaves no attempt that a command without one could complete', async () => {
    const capsule = await copied();
    const { id } = capsule;
    const doomed = await doomedAt('move:after-end');
    await expect(move(doomed, id, '--back')).rejects.toThrow('cut short');
    await doomed.stop();
    await expect(move(broker, id, 'b', '--copied', '')).rejects.toThrow(/another copy was begun since/);
    expect(await move(broker, id, '--back')).toEqual({ stays: id });
    await isOnlyOn('main', capsule);
  });
});

it('a database that a rotation has shut is not opened by it once its Capsule is being moved', async () => {
  const { id, principal } = await created();
  await COMMANDS['rotate']!.run(broker.servers, 'test', [id, 'app', '--end-sessions'], async () => '');
  const { connections } = broker.context;
  let transactions = 0;
  let begun: Awaited<ReturnType<typeof move>> | undefined;
  const transaction: Context['connections']['transaction'] = async (work, afterCommit) => {
    transactions += 1;
    // The first sets the password, and the second opens the database.
    if (transactions === 2) begun = await move(broker, id, 'b');
    return connections.transaction(work, afterCommit);
  };
  const call = { traceId: 'a'.repeat(32), principal: digestOf(new Secret(principal)) };
  const context = { ...broker.context, connections: { ...connections, transaction } };
  await expect(createApp(context, call, id, 'app')).rejects.toThrow('the Capsule is being moved');

  await copyAll(clients, begun?.copies);
  await move(broker, id, 'b', '--copied', begun?.attempt ?? '');
  const after: string = (await broker.as(principal).create(id, 'app')).json.database_url;
  expect(two.serverOf(after)).toBe('b');
  expect(await sqlstate(after)).toBe('ok');
});
