import { connect, type Socket } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { digest, makeGateway, type TestGateway } from '../testing/gateway.ts';
import type { DataLimits } from './limits.ts';

/** Callers without a policy or a credential cost little, and harm only themselves. */

const NEVER = 10 * 60_000;
const WRONG = `spc_egr_${'A'.repeat(43)}`;

let test: TestGateway;
const sockets = new Set<Socket>();

async function start(limits: Partial<DataLimits> = {}): Promise<void> {
  test = await makeGateway({ limits: { unknownWaitMs: NEVER, ...limits } });
}
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  await test.close();
});

/** A pod: its address, and what its connection received. */
function call(from: string, bytes: string) {
  const socket = connect({ port: test.port, host: '127.0.0.1', localAddress: from });
  sockets.add(socket);
  const seen = { text: '', ended: false, socket };
  socket.setEncoding('latin1').on('data', (chunk) => {
    seen.text += chunk;
  });
  socket
    .on('error', () => undefined)
    .on('close', () => {
      seen.ended = true;
    });
  socket.write(bytes);
  return seen;
}
const ask = (principal?: string) =>
  `POST /i/nobody/x HTTP/1.1\r\nhost: assistant-egress\r\n${principal === undefined ? '' : `authorization: Bearer ${principal}\r\n`}content-length: 0\r\n\r\n`;

const until = (happens: () => void | Promise<void>) =>
  vi.waitFor(happens, { timeout: 240_000, interval: 10 });
const metric = async (name: string) => {
  const text = await test.registry.metrics();
  const values = [...text.matchAll(new RegExp(`^${name}(?:\\{([^}]*)\\})? (\\d+)$`, 'gm'))];
  return Object.fromEntries(values.map(([, labels = '', value]) => [labels, Number(value)]));
};
const waiting = async () => (await metric('space_egress_waiting'))[''];
const turnedAway = async (reason: string) =>
  (await metric('space_egress_turned_away_total'))[`reason="${reason}"`] ?? 0;

describe('a caller without a policy', () => {
  it('is held once for each connection, however many requests it sends one after the other', async () => {
    await start();
    const callers = Array.from({ length: 4 }, () => call('127.0.0.2', ask(WRONG).repeat(3_000)));
    await until(() => expect(callers.every(({ ended }) => ended)).toBe(true));
    expect(callers.map(({ text }) => text)).toEqual(['', '', '', '']);
    await until(async () => expect(await waiting()).toBe(0));
    expect(await turnedAway('pipelined')).toBe(4);
    // One line for the request that was held, and none for those behind it.
    expect(test.log.length).toBeLessThanOrEqual(4);
  });

  it('has its body in as much memory as it has bytes while it is held', async () => {
    await start();
    await test.put({});
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const memory = () => {
      collect();
      const { heapUsed, external } = process.memoryUsage();
      return heapUsed + external;
    };
    const before = memory();
    const head = `POST /i/x/y HTTP/1.1\r\nhost: assistant-egress\r\nauthorization: Bearer ${WRONG}\r\ntransfer-encoding: chunked\r\n\r\n`;
    const bytes = head + '1\r\na\r\n'.repeat(60_000);
    const callers = Array.from({ length: 8 }, () => call('127.0.0.2', bytes));
    await until(async () => expect(await waiting()).toBe(8));
    // As much as is taken of them is taken when the sockets have stood still.
    const sent = () => callers.map(({ socket }) => socket.writableLength).join();
    for (let last = ''; last !== sent(); last = sent())
      await new Promise((resolve) => setTimeout(resolve, 500));
    expect(memory() - before).toBeLessThan(40 * 1024 * 1024);
  });

  it('is one of a few of its address that are held, and leaves slots for those of other addresses', async () => {
    await start({ unknownConnections: 3 });
    await test.put({ addresses: [] });
    // Beyond its connections its calls would never get so far; that bound has its own test.
    const greedy = Array.from({ length: 5 }, () => call('127.0.0.2', ask(WRONG)));
    await until(() => expect(greedy.filter(({ ended }) => ended)).toHaveLength(2));
    const other = call('127.0.0.3', ask(test.principal));
    await until(async () => expect(await waiting()).toBe(4));
    // Its policy comes a moment later: it is served though others wait.
    await test.put({ addresses: ['127.0.0.3'] });
    await until(() => expect(other.text).toMatch(/^HTTP\/1\.1 404 /));
    expect(greedy.every(({ text }) => text === '')).toBe(true);
  });

  it('comes to have a quarter of what is free, so that many of them leave slots for the next', async () => {
    await start({ unknownConnections: 8, allUnknownConnections: 10 });
    const greedy = Array.from({ length: 8 }, () => call('127.0.0.2', ask(WRONG)));
    await until(() => expect(greedy.filter(({ ended }) => ended)).toHaveLength(6));
    const others = Array.from({ length: 8 }, (_, at) => call(`127.0.1.${at + 1}`, ask(WRONG)));
    await until(async () => expect(await waiting()).toBe(10));
    expect(others.some(({ ended }) => ended)).toBe(false);
  });

  it('that repeats requests without a credential and does not read the answers is ended', async () => {
    await start();
    // Nothing leaves, as when the buffers of both kernels are full.
    test.gateway.listener.server.on(
      'connection',
      (socket: Socket) => void (socket.writableCorked || socket.cork()),
    );
    const deaf = call('127.0.0.2', 'CONNECT a.org:443 HTTP/1.1\r\n\r\n');
    await until(() => expect(test.log).toHaveLength(1));
    deaf.socket.write('CONNECT a.org:443 HTTP/1.1\r\n\r\n');
    await until(() => expect(deaf.ended).toBe(true));
    expect(test.log).toHaveLength(1);
  });

  it('of a known pod waits in the slots of its Capsule, however many pods that has', async () => {
    await start({ unknownConnections: 2 });
    await test.put({ addresses: ['127.0.0.2', '127.0.0.3'] });
    const crowd = ['127.0.0.2', '127.0.0.3', '127.0.0.2'].map((from) => call(from, ask(WRONG)));
    await until(() => expect(crowd.filter(({ ended }) => ended)).toHaveLength(1));
    expect(await turnedAway('waiting')).toBe(1);
    const fresh = call('127.0.0.4', ask(WRONG));
    await until(async () => expect(await waiting()).toBe(3));
    expect(fresh.ended).toBe(false);
  });

  it('is refused a limited number of times in a row, and then ended without an answer and without a log line', async () => {
    await start({ refusalsPerSecond: 1e-6, refusalsBurst: 3 });
    const told = [];
    for (let i = 0; i < 3; i++) {
      const one = call('127.0.0.2', ask());
      await until(() => expect(one.text).toMatch(/^HTTP\/1\.1 403 /));
      told.push(one);
    }
    const lines = test.log.length;
    for (const bytes of [ask(), ask(WRONG), 'CONNECT a.b:443 HTTP/1.1\r\nhost: a.b:443\r\n\r\n']) {
      const one = call('127.0.0.2', bytes);
      await until(() => expect(one.ended).toBe(true));
      expect(one.text).toBe('');
    }
    expect(await turnedAway('refusals')).toBe(3);
    expect(test.log).toHaveLength(lines);
    // Another address gets an answer, and the same one is served as soon as it is in a policy.
    const other = call('127.0.0.3', ask());
    await until(() => expect(other.text).toMatch(/^HTTP\/1\.1 403 /));
    await test.put({ addresses: ['127.0.0.2'] });
    const known = call('127.0.0.2', ask(test.principal));
    await until(() => expect(known.text).toMatch(/^HTTP\/1\.1 404 /));
  });

  it('waits as long with the principal of an Assistant as with any other, and is refused as often', async () => {
    await start({ unknownWaitMs: 400, refusalsPerSecond: 1e-6, refusalsBurst: 2 });
    await test.put({ addresses: [] });
    const wait = async (principal: string) => {
      const began = performance.now();
      const one = call('127.0.0.2', ask(principal));
      await until(() => expect(one.ended || one.text !== '').toBe(true));
      return { text: one.text.slice(0, 12), tooSoon: performance.now() - began < 390 };
    };
    const refused = { text: 'HTTP/1.1 403', tooSoon: false };
    expect([await wait(test.principal), await wait(WRONG)]).toEqual([refused, refused]);
    expect(await wait(test.principal)).toEqual({ text: '', tooSoon: false });
  });

  it('that sends what is no request has the same limit', async () => {
    await start({ refusalsPerSecond: 1e-6, refusalsBurst: 1 });
    const garbage = 'GET / HTTP/1.1\r\nno colon\r\n\r\n';
    const answered = call('127.0.0.2', garbage);
    await until(() => expect(answered.text).toMatch(/^HTTP\/1\.1 400 /));
    const lines = test.log.length;
    const one = call('127.0.0.2', garbage);
    await until(() => expect(one.ended).toBe(true));
    expect(one.text).toBe('');
    expect(await turnedAway('refusals')).toBe(1);
    expect(test.log).toHaveLength(lines);
  });

  it('never blocks the replica’s own health check', async () => {
    await start({ unknownConnections: 1, allUnknownConnections: 2, unknownWaitMs: 300 });
    const crowd = ['127.0.0.2', '127.0.0.3', '127.0.0.4'].map((from) => call(from, ask(WRONG)));
    const own = call('127.0.0.1', ask(WRONG));
    await until(() => expect(own.text).toMatch(/^HTTP\/1\.1 403 /));
    await until(() => expect(crowd.some(({ ended }) => ended)).toBe(true));
  });
});

describe('connections', () => {
  it('of silent pods in one Capsule leave those of another their places', async () => {
    await start({ connections: 3, capsuleConnections: 4, allConnections: 64 });
    await test.put({ addresses: ['127.0.0.2', '127.0.0.3'] });
    const other = { capsule_id: 'office', app_id: 'desk', assistant_uid: 'uid-2', principals: [digest('o')] };
    await test.put({ ...other, addresses: ['127.0.0.9'] });
    const silent = ['127.0.0.2', '127.0.0.2', '127.0.0.2', '127.0.0.2', '127.0.0.3', '127.0.0.3'];
    const held = silent.map((from) => call(from, ''));
    await until(() => expect(held.filter(({ ended }) => ended)).toHaveLength(2));
    expect([await turnedAway('connections_address'), await turnedAway('connections_capsule')]).toEqual([
      1, 1,
    ]);
    const served = call('127.0.0.9', ask());
    await until(() => expect(served.text).toMatch(/^HTTP\/1\.1 403 /));
  });

  it('that were silent for longest give way when all are taken', async () => {
    await start({ connections: 2, capsuleConnections: 2, allConnections: 3 });
    await test.put({ addresses: ['127.0.0.2'] });
    const other = { capsule_id: 'office', app_id: 'desk', assistant_uid: 'uid-2', principals: [digest('o')] };
    await test.put({ ...other, addresses: ['127.0.0.9'] });
    const first = call('127.0.0.2', '');
    await until(async () => expect(await metric('space_egress_connections')).toEqual({ '': 1 }));
    // A connection in use does not give way.
    const busy = call('127.0.0.2', ask(WRONG));
    await until(async () => expect(await waiting()).toBe(1));
    const [second, third] = [call('127.0.0.9', ''), call('127.0.0.9', ask())];
    await until(() => expect(third.text).toMatch(/^HTTP\/1\.1 403 /));
    await until(() => expect(first.ended).toBe(true));
    expect([busy.ended, second.ended]).toEqual([false, false]);
  });

  it('of a pod that is in no policy yet are those of its Capsule’s new pods, beside a handful of its address', async () => {
    await start({ unknownConnections: 2, allUnknownConnections: 64, arrivals: 3 });
    await test.put({ addresses: [] });
    const early = Array.from({ length: 5 }, () => call('127.0.0.2', ask(test.principal)));
    await until(async () => expect(await waiting()).toBe(5));
    const sixth = call('127.0.0.2', ask(test.principal));
    await until(() => expect(sixth.ended).toBe(true));
    expect(await turnedAway('connections_address')).toBe(1);
    await test.put({ addresses: ['127.0.0.2'] });
    await until(() => expect(early.every(({ text }) => text.startsWith('HTTP/1.1 404 '))).toBe(true));
    // All of these places are free for the next.
    await test.put({ addresses: [] });
    const next = Array.from({ length: 5 }, () => call('127.0.0.5', ask(test.principal)));
    await until(async () => expect(await waiting()).toBe(5));
    expect(next.some(({ ended }) => ended)).toBe(false);
  });

  it('of new pods are those of the Capsule whose principal they show, and leave others theirs', async () => {
    await start({ unknownConnections: 1, arrivals: 8, allArrivals: 8 });
    const principal = `spc_egr_${'B'.repeat(42)}A`;
    const other = {
      capsule_id: 'office',
      app_id: 'desk',
      assistant_uid: 'uid-2',
      principals: [digest(principal)],
    };
    await test.put({ addresses: [] });
    await test.put({ ...other, addresses: [] });
    const greedy: ReturnType<typeof call>[] = [];
    // One after the other, so that none is ended while it shows no principal yet.
    for (let at = 1; at <= 4; at += 1) {
      greedy.push(call('127.0.0.2', ask(test.principal)));
      await until(async () => expect(await waiting()).toBe(at));
    }
    // Three have less than half of what was free, and the fourth waits at the place of its address.
    const more = call('127.0.0.2', ask(test.principal));
    await until(() => expect(more.ended).toBe(true));
    const theirs = call('127.0.0.3', ask(principal));
    await until(async () => expect(await waiting()).toBe(5));
    await test.put({ ...other, addresses: ['127.0.0.3'] });
    await until(() => expect(theirs.text).toMatch(/^HTTP\/1\.1 404 /));
    expect(greedy.some(({ ended }) => ended)).toBe(false);
  });

  it('of a pod of another Capsule that shows a principal are its own', async () => {
    await start({ unknownConnections: 1, arrivals: 8 });
    const other = { capsule_id: 'office', app_id: 'desk', assistant_uid: 'uid-2', principals: [digest('o')] };
    await test.put({ addresses: [] });
    await test.put({ ...other, addresses: ['127.0.0.3'] });
    const stolen = [call('127.0.0.3', ask(test.principal)), call('127.0.0.3', ask(test.principal))];
    // Its Capsule has one place for a call that waits.
    await until(() => expect(stolen.filter(({ ended }) => ended)).toHaveLength(1));
    expect(await turnedAway('waiting')).toBe(1);
  });

  it('of an address in no policy end no idle ones of others whose places it could not have', async () => {
    await start({ unknownConnections: 4, allUnknownConnections: 4 });
    const one = (from: string) => call(from, '');
    const idle = ['127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.5'].map(one);
    await until(async () => expect(await metric('space_egress_connections')).toEqual({ '': 4 }));
    const second = one('127.0.0.5');
    await until(() => expect(second.ended).toBe(true));
    expect(await metric('space_egress_connections')).toEqual({ '': 4 });
    expect(idle.some(({ ended }) => ended)).toBe(false);
    expect(await turnedAway('connections_full')).toBe(1);
    // An address without any gets the place of the one that was idle for longest.
    const fresh = call('127.0.0.6', ask());
    await until(() => expect(fresh.text).toMatch(/^HTTP\/1\.1 403 /));
    await until(() => expect(idle.filter(({ ended }) => ended)).toHaveLength(1));
  });

  it('of an address that two Capsules have count for the one that proves itself', async () => {
    await start({ connections: 2, capsuleConnections: 2, allConnections: 64 });
    const other = { capsule_id: 'office', app_id: 'desk', assistant_uid: 'uid-2', principals: [digest('o')] };
    await test.put({ ...other, addresses: ['127.0.0.2', '127.0.0.9'] });
    await test.put({ addresses: ['127.0.0.2', '127.0.0.3'] });
    const proved = [1, 2].map(() => call('127.0.0.2', ask(test.principal)));
    await until(() => expect(proved.every(({ text }) => text.startsWith('HTTP/1.1 404 '))).toBe(true));
    // The other Capsule has its whole share, and this one has none left.
    const others = [1, 2].map(() => call('127.0.0.9', ask()));
    await until(() => expect(others.every(({ text }) => /^HTTP\/1\.1 403 /.test(text))).toBe(true));
    const more = call('127.0.0.3', ask(test.principal));
    await until(() => expect(more.ended).toBe(true));
    expect([more.text, await turnedAway('connections_capsule')]).toEqual(['', 1]);
    expect(proved.some(({ ended }) => ended)).toBe(false);
    for (const { socket } of proved) socket.destroy();
    await until(async () => expect(await metric('space_egress_connections')).toEqual({ '': 2 }));
    const later = [1, 2].map(() => call('127.0.0.3', ask(test.principal)));
    await until(() => expect(later.every(({ text }) => text.startsWith('HTTP/1.1 404 '))).toBe(true));
  });
});
