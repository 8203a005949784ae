import { newToken } from '@space/broker-kit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Clients, findClients } from '../../../testing/postgres/clients.ts';
import { COMMANDS } from '../commands.ts';
import type { TestBroker } from '../testing/broker.ts';
import { move, moveWhole, savedRows } from '../testing/moves.ts';
import { query } from '../testing/postgres.ts';
import { openTwoServers, type TwoServers } from '../testing/servers.ts';
import type { Whereabouts } from './whereabouts.ts';

/** Two servers of which one is as of another moment than the other, as after a restore of one of them. */

let two: TwoServers;
let clients: Clients;
let broker: TestBroker;
beforeAll(async () => {
  clients = await findClients();
  two = await openTwoServers({ major: clients.major });
  broker = await two.start();
});
afterAll(async () => {
  await broker?.stop();
  await two?.close();
});

async function capsuleOn(server: 'main' | 'b', id: string): Promise<string> {
  const placing = await two.start({ shares: { [server === 'b' ? 'main' : 'b']: { drain: true } } });
  const principal = newToken('dbp').reveal();
  await placing.provisioner.provision(id, principal);
  const { json } = await placing.as(principal).create(id, 'app');
  await placing.stop();
  return new URL(json.database_url).pathname.slice(1);
}
const of = async (capsule: string): Promise<Whereabouts | undefined> => {
  const said = await COMMANDS['whereabouts']!.run(broker.servers, 'a'.repeat(32), [], async () => '');
  const lines: Whereabouts[] = String(said)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
  return lines.find((one) => one.capsule === capsule);
};
it('each Capsule is on the server of its placement, with all of its databases', async () => {
  await capsuleOn('main', 'here');
  await capsuleOn('b', 'there');
  expect(await of('here')).toEqual({
    capsule: 'here',
    noted: 'main',
    movingTo: null,
    on: ['main'],
    missing: [],
  });
  expect(await of('there')).toEqual({ capsule: 'there', noted: 'b', movingTo: null, on: ['b'], missing: [] });
});

it('a Capsule that is being moved is listed with its target, and only on its server until it has landed', async () => {
  await capsuleOn('main', 'going');
  await move(broker, 'going', 'b');
  expect(await of('going')).toMatchObject({ noted: 'main', movingTo: 'b', on: ['main'] });
  await move(broker, 'going', '--back');
  expect(await of('going')).toMatchObject({ noted: 'main', movingTo: null, on: ['main'] });
});

it('a server that was restored to before a move has the Capsule in addition to its new server', async () => {
  await capsuleOn('main', 'twice');
  const before = await savedRows(two, two.main, 'twice');
  await moveWhole(broker, clients, 'twice', 'b');
  expect(await of('twice')).toMatchObject({ noted: 'b', on: ['b'] });
  await before();
  expect(await of('twice')).toMatchObject({ noted: 'main', on: ['main', 'b'] });
});

it('a first server that was restored to before the arrival of a Capsule finds it nowhere', async () => {
  await capsuleOn('b', 'nowhere');
  const before = await savedRows(two, two.main, 'nowhere');
  await moveWhole(broker, clients, 'nowhere', 'main');
  await before();
  expect(await of('nowhere')).toMatchObject({ noted: 'b', on: [] });
  // A broker that starts goes by what the other server says of the move, and does not find it either.
  const later = await two.start();
  await later.stop();
  expect(await of('nowhere')).toMatchObject({ noted: 'main', on: [] });
});

it('a server that was restored without a database lists the missing one', async () => {
  const name = await capsuleOn('b', 'robbed');
  await query(two.b.superuserUrl, `DROP DATABASE ${name} WITH (FORCE)`);
  expect(await of('robbed')).toMatchObject({ noted: 'b', on: ['b'], missing: [name] });
});

it('is not answered unless all servers answer', async () => {
  await two.b.stop();
  try {
    await expect
      .poll(
        () =>
          of('here').then(
            () => 'answered',
            () => 'refused',
          ),
        { timeout: 240_000 },
      )
      .toBe('refused');
  } finally {
    await two.b.start();
  }
});
