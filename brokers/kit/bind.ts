import type { Server } from 'node:net';

/**
 * Connections that the kernel holds for a process that is busy; of those beyond it drops the first packet, which a caller
 * repeats after a second. Node's default is 511, which one caller can fill. `net.core.somaxconn` bounds it, too.
 */
const BACKLOG = 4_096;

/** Begins to listen; port 0 is any free one. @throws what the system says, for example that the port is taken */
export function bind(
  server: Server,
  { host, port }: { host: string | undefined; port: number },
): Promise<void> {
  return new Promise<void>((resolve, reject) => {
    // It stays: a connection that cannot be accepted later, such as for lack of memory, must not end the process.
    server.on('error', reject);
    server.listen({ port, host, backlog: BACKLOG }, resolve);
  });
}
