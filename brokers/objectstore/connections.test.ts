import { connect, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { eventually } from '../../testing/eventually.ts';
import { type Fixture, openFixture } from './testing/fixture.ts';

/** Callers without a credential that open as many connections as they get. */

const SHARE = 10;

let fixture: Fixture;
const sockets = new Set<Socket>();
beforeAll(async () => {
  fixture = await openFixture({
    environment: { CONNECTIONS: String(4 * SHARE), CONNECTIONS_PER_ADDRESS: String(SHARE) },
  });
});
afterEach(() => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
});
afterAll(() => fixture?.close());

const refused = async (listener: string) => {
  const text = await (await fetch(`http://127.0.0.1:${fixture.broker.metricsPort}/metrics`)).text();
  const line = `space_connections_refused_total{listener="${listener}",reason="share"}`;
  return Number(
    text
      .split('\n')
      .find((one) => one.startsWith(line))
      ?.split(' ')[1] ?? 0,
  );
};

test.each([
  ['data', () => fixture.broker.dataUrl],
  ['control', () => fixture.broker.url],
])(
  'one address gets its share of the connections of the %s listener, and leaves the rest to others',
  async (listener, base) => {
    const { hostname: host, port } = new URL(base());
    for (let i = 0; i < 4 * SHARE; i += 1) {
      const socket = connect({ host, port: Number(port), localAddress: '127.0.0.2' });
      sockets.add(socket.on('error', () => undefined).resume());
      socket.write('GET /healthz HTTP/1.1\r\nhost: a\r\n');
    }
    // Those that it holds end after some seconds of silence, and others of its own may follow them.
    await eventually(async () => (await refused(listener)) >= 2 * SHARE, { what: 'those beyond the share' });
    const health = await fetch(`${base()}/healthz`);
    expect([health.status, await health.json()]).toEqual([200, { status: 'ok' }]);
  },
);
