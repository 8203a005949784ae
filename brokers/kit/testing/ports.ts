import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/** Below these, Linux takes no port for a connection that goes out. */
const FIRST_EPHEMERAL = 32_768;
const FIRST = 12_000;

/**
 * A port of loopback that nobody has, for a server that must be told its port. No connection takes it either, so the
 * server can be ended and started on it again: while it is down, whoever tries to reach it could otherwise be given
 * this very port as its own.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(FIRST, FIRST_EPHEMERAL);
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
