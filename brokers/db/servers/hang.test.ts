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
  /** Of the first request with this answer: a server of a machine that stands still for some seconds hangs as well, until it goes on. */
  const timed = (caller: Client, id: string, app: string, expected: number) =>
    eventually(
      async () => {
        const begun = performance.now();
        const { status } = await caller.create(id, app);
        return status === expected && performance.now() - begun;
      },
      { what: `an answer ${expected}` },
    );
  const ofMain = () => timed(own, here.id, 'warm', 200);
  const ofB = () => timed(broker.as(there.token), there.id, 'app', 503);
  /** Whatever waits for b, waits for five seconds at least. On a busy machine others may be late, but not each of them. */
  const isSoon = (ms: number) => ms < 4_500;
  const once = (one: () => Promise<number>, what: string) =>
    eventually(async () => isSoon(await one()), { what });
  line.hang();
  try {
    // Many requests for Capsules of b at once, which must leave slots and connections for those of main.
    const waiting = Array.from({ length: 40 }, () => broker.as(there.token).create(there.id, 'app'));
    // All at once, since only the first would wait if those of b had taken all slots.
    const before = Math.min(...(await Promise.all(Array.from({ length: 5 }, ofMain))));
    await eventually(() => broker.servers.all[1]!.state().kind === 'unreachable', {
      what: 'the server that hangs to be seen',
    });
    await once(ofMain, 'main to answer soon');
    for (const reply of await Promise.all(waiting)) expect(reply.status).toBe(503);
    await once(ofB, 'b to be refused soon');
    const principal = newToken('dbp').reveal();
    const placed = await eventually(
      async () => {
        const reply = await broker.provisioner.provision('meanwhile', principal);
        return reply.status === 200 && reply;
      },
      { what: 'another Capsule to be placed' },
    );
    expect(two.serverOf(placed.json.database_url)).toBe('main');
    expect(before).toSatisfy(isSoon);
  } finally {
    line.resume();
  }
  await eventually(() => broker.servers.all[1]!.state().kind === 'ready', { what: 'the server to be back' });
  await eventually(async () => (await broker.as(there.token).create(there.id, 'app')).status === 200, {
    what: 'its Capsules to go on',
  });
});
