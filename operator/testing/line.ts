import { createServer, connect as dial, type Socket } from 'node:net';

/** A TCP line to a server that a test may cut in the middle of anything, or hold still. */
export interface Line {
  readonly port: number;
  /** Connections made so far: a client in a hot loop makes many. */
  readonly connections: number;
  /** Ends every connection, wherever its bytes are. */
  cut(): void;
  /** While held, bytes go nowhere and nobody is told. */
  hold(held: boolean): void;
  close(): Promise<void>;
}

export async function openLine(url: string): Promise<Line> {
  const target = new URL(url);
  const open = new Set<Socket>();
  let held = false;
  let connections = 0;
  const server = createServer((near) => {
    connections += 1;
    const far = dial(Number(target.port), target.hostname);
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(socket);
      if (held) socket.pause();
      socket.on('data', (bytes) => other.write(bytes));
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        open.delete(socket);
        other.destroy();
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  return {
    port: typeof address === 'object' && address ? address.port : 0,
    get connections() {
      return connections;
    },
    cut() {
      for (const socket of open) socket.destroy();
    },
    hold(now) {
      held = now;
      for (const socket of open) now ? socket.pause() : socket.resume();
    },
    async close() {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
