import { connect, createServer, type Server, type Socket } from 'node:net';
import { newToken, portOf } from '@space/broker-kit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import type { Client, TestBroker } from '../testing/broker.ts';
import { openTwoServers, type TwoServers } from '../testing/servers.ts';

/** A server that accepts connections and bytes, and answers nothing, so that no error is reported. */

let two: TwoServers;
let broker: TestBroker;
let line: Awaited<ReturnType<typeof openHangingLine>>;
beforeAll(async () => {
  two = await openTwoServers();
  line = await openHangingLine(two.b.port);
  broker = await two.start({ portOfB: line.port });
});
afterAll(async () => {
  line.resume();
  await broker.stop();
  await line.close();
  await two.close();
});

/** A way to a server that can be held up. */
async function openHangingLine(to: number) {
  const sockets = new Set<Socket>();
  let held = false;
  const server: Server = createServer((near) => {
    const far = connect(to, '127.0.0.1');
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => undefined).once('close', () => sockets.delete(socket));
    }
    near.pipe(far).pipe(near);
    if (held) for (const socket of [near, far]) socket.pause();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: portOf(server),
    hang: () => {
      held = true;
      for (const socket of sockets) socket.pause();
    },
    resume: () => {
      held = false;
      for (const socket of sockets) socket.resume();
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

it('a server that hangs affects only its own Capsules, whose requests fail soon', async () => {
  const tokens = new Map<'main' | 'b', { id: string; token: string }>();
  for (let i = 0; tokens.size < 2; i += 1) {
    const token = newToken('dbp').reveal();
    const { json } = await broker.provisioner.provision(`hangs-${i}`, token);
    tokens.set(two.serverOf(json.database_url), { id: `hangs-${i}`, token });
  }
  const [here, there] = [tokens.get('main')!, tokens.get('b')!];
  const own = broker.as(here.token);
  await own.create(here.id, 'warm');
  const timed = async (caller: Client, id: string, app: string, expected: number) => {
    const begun = performance.now();
    expect((await caller.create(id, app)).status).toBe(expected);
    return performance.now() - begun;
  };
  const ofMain = () => timed(own, here.id, 'warm', 200);
  const ofB = () => timed(broker.as(there.token), there.id, 'app', 503);
  /** The least of five, one after the other: on a busy machine one may be late, while each that waits for b is. */
  const least = async (one: () => Promise<number>) => {
    const times: number[] = [];
    for (let i = 0; i < 5; i += 1) times.push(await one());
    return Math.min(...times);
  };
  line.hang();
  try {
    // Many requests for Capsules of b at once, which must leave slots and connections for those of main.
    const waiting = Array.from({ length: 40 }, () => broker.as(there.token).create(there.id, 'app'));
    // All at once, since only the first would wait if those of b had taken all slots.
    const before = Math.min(...(await Promise.all(Array.from({ length: 5 }, ofMain))));
    await eventually(() => broker.servers.all[1]!.state().kind === 'unreachable', {
      what: 'the server that hangs to be seen',
      within: 60_000,
    });
    const after = await least(ofMain);
    for (const reply of await Promise.all(waiting)) expect(reply.status).toBe(503);
    const refused = await least(ofB);
    const placed = await broker.provisioner.provision('meanwhile', newToken('dbp').reveal());
    expect(two.serverOf(placed.json.database_url)).toBe('main');
    // Whatever waits for b, waits for five seconds at least.
    expect({ before: before < 4_500, after: after < 4_500, refused: refused < 4_500 }).toEqual({
      before: true,
      after: true,
      refused: true,
    });
  } finally {
    line.resume();
  }
  await eventually(() => broker.servers.all[1]!.state().kind === 'ready', { what: 'the server to be back' });
  await eventually(async () => (await broker.as(there.token).create(there.id, 'app')).status === 200, {
    what: 'its Capsules to go on',
  });
});
