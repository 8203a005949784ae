import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

/** All ports are below 32768, where the range begins that Linux uses for outgoing connections. */
const FIRST = 12_000;
const SLICES = 1_000;
const SLICE = 20;
/** Ports of this process's slices that were not returned yet. */
const left: number[] = [];

/**
 * A free port of loopback, for a server that needs its port as an argument. It is outside of the range of outgoing connections,
 * so the server can be restarted on it: otherwise a client that tries to reach the stopped server could itself get this port.
 * A server may bind its port seconds later, so each process reserves slices of ports for its lifetime and returns no port twice.
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

/** Undefined if the port is in use. */
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
