import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/** All below 32768, from where on Linux gives ports to connections that go out. */
const FIRST = 12_000;
const SLICES = 1_000;
const SLICE = 20;
let next = randomInt(SLICE);

/**
 * A port of loopback that nobody has, for a server that must be told its port. No connection takes it either, so the
 * server can be ended and started on it again: while it is down, whoever tries to reach it could otherwise be given
 * this very port as its own. Processes side by side look in slices of their own, since a server takes seconds until it
 * has taken the port that it was told.
 */
export async function freePort(): Promise<number> {
  for (let tries = 0; ; tries += 1) {
    const slice = (process.pid + Math.floor(tries / SLICE) * 331) % SLICES;
    const port = FIRST + slice * SLICE + (next++ % SLICE);
    if (await isFree(port)) return port;
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') return false;
    throw error;
  } finally {
    server.close();
  }
}
