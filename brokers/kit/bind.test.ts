import { readFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import { bind } from './bind.ts';
import { portOf } from './metrics.ts';

const cleanUp: (() => void)[] = [];
afterEach(() => {
  for (const act of cleanUp.splice(0)) act();
});

const ESTABLISHED = '01';
/** More than Node's own backlog, and than one address may have open at a broker. */
const CALLERS = 1_000;

/** Connections from this machine to the port that the kernel has completed, whether the server knows of them or not. */
function completed(port: number): number {
  const remote = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const lines = readFileSync('/proc/self/net/tcp', 'utf8').split('\n');
  return lines.filter((line) => {
    const [, , to = '', state] = line.trim().split(/\s+/);
    return to.endsWith(remote) && state === ESTABLISHED;
  }).length;
}

it('a thousand callers who arrive while the process is busy are all connected', async () => {
  const server = createServer();
  await bind(server, { host: '127.0.0.1', port: 0 });
  cleanUp.push(() => server.close());
  const port = portOf(server);
  const sockets = Array.from({ length: CALLERS }, () => connect({ port, host: '127.0.0.1' }));
  cleanUp.push(() => {
    for (const socket of sockets) socket.destroy();
  });
  for (const socket of sockets) socket.on('error', () => undefined);
  // Sockets connect in the next tick, before the server may accept any of them.
  await new Promise<void>((resolve) => process.nextTick(resolve));
  expect(completed(port)).toBe(CALLERS);
});

it('goes on when connections cannot be accepted', async () => {
  const server = createServer();
  await bind(server, { host: '127.0.0.1', port: 0 });
  cleanUp.push(() => server.close());
  const failed = () => server.emit('error', new Error('accept ENOBUFS'));
  expect(failed).not.toThrow();
  expect(failed).not.toThrow();
});

it('says why it cannot listen', async () => {
  const first = createServer();
  await bind(first, { host: '127.0.0.1', port: 0 });
  cleanUp.push(() => first.close());
  const taken = bind(createServer(), { host: '127.0.0.1', port: portOf(first) });
  await expect(taken).rejects.toMatchObject({ code: 'EADDRINUSE' });
});
