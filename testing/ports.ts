import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

/** All below 32768, from where on Linux gives ports to connections that go out. */
const FIRST = 12_000;
const SLICES = 1_000;
const SLICE = 20;
/** Ports of this process's slices that are not given out yet. */
const left: number[] = [];

/**
 * A port of loopback that nobody has, for a server that must be told its port. No connection takes it either, so the
 * server can be ended and started on it again: while it is down, whoever tries to reach it could otherwise be given
 * this very port as its own. A server takes seconds until it has taken the port that it was told, so each process has
 * slices of its own while it lives, and gives out no port twice.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = left.shift();
    if (port === undefined) {
      await takeSlice();
      continue;
    }
    const server = await listening(port);
    if (server === undefined) continue;
    server.close();
    return port;
  }
}

/** Binding the first port of a slice reserves all of it; the kernel releases it when the process ends. */
async function takeSlice(): Promise<void> {
  for (let slice = randomInt(SLICES); ; slice = (slice + 1) % SLICES) {
    const first = FIRST + slice * SLICE;
    const owner = await listening(first);
    if (owner === undefined) continue;
    owner.unref();
    for (let port = first + 1; port < first + SLICE; port += 1) left.push(port);
    return;
  }
}

/** Undefined for a port that somebody has. */
async function listening(port: number): Promise<Server | undefined> {
  const server = createServer();
  try {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    return server;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') return undefined;
    throw error;
  }
}
