import { readFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { type EmbeddedServer, startEmbeddedServer } from '../../../testing/postgres/server.ts';
import { openTcpProxy, type TcpProxy } from '../../../testing/tcp-proxy.ts';
import { createLogger } from '../log.ts';
import { serverParser } from './address.ts';
import { type Connections, openConnections, TIMES } from './connections.ts';
import { StepError } from './errors.ts';
import type { Session } from './session.ts';

/** A lost node sends nothing any more: its connections neither end nor answer. */

const log = createLogger({ service: 'test', level: 'silent' });

let server: EmbeddedServer;
let line: TcpProxy;
let connections: Connections;
let open: (times?: typeof TIMES) => Connections;
/** Seconds in which a busy machine can answer; the test only distinguishes whether a request is abandoned at all. */
const SOON = { lookup: 3_000, watch: 3_000, leftAlone: 3_000 };
beforeAll(async () => {
  server = await startEmbeddedServer({ durable: false });
});
afterAll(() => server?.remove());
beforeEach(async () => {
  line = await openTcpProxy(server);
  const url = new URL(server.brokerUrl);
  url.port = String(line.port);
  const value = serverParser({ url: undefined, setting: 'ADMIN_DATABASE' }, () => '')(url.href);
  const address = { current: () => value, refresh: async () => undefined, close: () => undefined };
  const limits = { application: 'test', work: 2, lookup: 4 };
  open = (times = TIMES) => openConnections(address, log, { ...limits, times });
  connections = open(SOON);
});
afterEach(async () => {
  line.cut();
  await connections.close();
  await line.close();
});

describe('while connections are open to a server that is lost', () => {
  it('look-ups continue at its replacement, before each pooled connection has cost a caller a minute and a half', async () => {
    const ask = () => connections.lookup.read('ask', 'SELECT 1 FROM pg_sleep(0.1)');
    await Promise.all([ask(), ask(), ask(), ask()]);
    expect(line.connections).toBe(4);
    line.silence();
    await eventually(ask, { what: 'an answer to a look-up' });
  });

  it('the watch continues as well, instead of being blocked for a minute and a half', {
    timeout: 60_000,
  }, async () => {
    const ask = () => connections.watch.read('ask', 'SELECT 1');
    await ask();
    line.silence();
    await expect(ask()).rejects.toMatchObject({ answered: false });
    await ask();
  });

  it('each checks within a minute whether the other end still exists, also while a drop waits for hours', async () => {
    const ask = (step: string) => `SELECT '${step}' FROM pg_sleep(0.1)`;
    const waits = connections
      .dropping((session) => session.read('wait', 'SELECT 1 FROM pg_sleep(1000)'))
      .catch((error: unknown) => error);
    await Promise.all([
      connections.lookup.read('ask', ask('lookup')),
      connections.watch.read('ask', ask('watch')),
      connections.session((session) => session.read('ask', ask('work'))),
    ]);
    const due = await eventually(
      () => {
        const timers = keepAlivesTo(line.port);
        return timers.length === 4 && timers;
      },
      { what: 'nothing under way on four connections, of which one waits' },
    );
    for (const seconds of due) expect(seconds).toBeLessThanOrEqual(60);
    line.cut();
    expect(await waits).toBeInstanceOf(StepError);
  });
});

it('a broker that was stopped while it held a lock, with open connections, blocks the others until its sessions were idle for too long', async () => {
  const held = Promise.withResolvers<void>();
  const lock = 'SELECT pg_advisory_lock(4711)';
  // Like a stopped process: it sends nothing more, and its kernel still acknowledges.
  const ended = new AbortController();
  const stopped = connections
    .session(async (session) => {
      await session.run('lock', lock);
      held.resolve();
      await new Promise((_, reject) =>
        ended.signal.addEventListener('abort', () => reject(ended.signal.reason)),
      );
    })
    .catch((error: unknown) => error);
  await held.promise;
  await eventually(
    () =>
      connections.session((session) => session.run('try', 'SELECT pg_advisory_lock(4711)').then(() => true)),
    { what: 'the lock' },
  );
  ended.abort(new Error('goes on'));
  await stopped;
});

it('a request is abandoned within two minutes', async () => {
  expect(TIMES).toEqual({ lookup: 20_000, watch: 10_000, leftAlone: 100_000 });
  const asItIs = open();
  const show = (session: Session) =>
    session.read<{ idle_session_timeout: string }>('show', 'SHOW idle_session_timeout');
  for (const rows of [await asItIs.session(show), await asItIs.dropping(show)])
    expect(rows).toEqual([{ idle_session_timeout: '100s' }]);
  await asItIs.close();
});

/** In how many seconds the kernel asks the other end of each connection to this port, by what it says of its timers. */
function keepAlivesTo(port: number): number[] {
  const hex = port.toString(16).toUpperCase().padStart(4, '0');
  return readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .map((row) => row.trim().split(/\s+/))
    .filter(([, , remote, state]) => remote?.endsWith(`:${hex}`) && state === '01')
    .map(([, , , , , timer = '']) => timer.split(':'))
    .filter(([kind]) => kind === '02')
    .map(([, when = '']) => Number.parseInt(when, 16) / 100);
}
