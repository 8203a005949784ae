import { connect, createServer, type Socket } from 'node:net';
import { portOf } from '@space/broker-kit';

/** A TCP line to a server, which a test may cut at a statement or lead to another server. */
export interface Line {
  readonly port: number;
  /** New connections go there from now on; those that are open are cut. */
  lead(port: number): void;
  /**
   * Cuts the line at the next message from the near side that has this text in it: before the server reads it, or
   * when the server answers it. Of a connection that has said something else since its last BEGIN, where that is given:
   * the upkeep begins and commits too. Returns whether that has happened yet.
   */
  cutAt(text: string, moment: 'before' | 'after', since?: RegExp): () => boolean;
  close(): Promise<void>;
}

export async function openLine(port: number): Promise<Line> {
  let target = port;
  let trap: { text: string; moment: 'before' | 'after'; since: RegExp } | undefined;
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(target, '127.0.0.1');
    let losing = false;
    let transaction = '';
    near.on('data', (bytes) => {
      transaction += bytes.toString('latin1');
      transaction = transaction.slice(Math.max(0, transaction.lastIndexOf('BEGIN')));
      if (trap !== undefined && bytes.includes(trap.text) && trap.since.test(transaction)) {
        const { moment } = trap;
        trap = undefined;
        if (moment === 'before') return void near.destroy();
        losing = true;
      }
      far.write(bytes);
    });
    far.on('data', (bytes) => {
      if (losing) near.destroy();
      else near.write(bytes);
    });
    for (const [socket, other] of [[near, far] as const, [far, near] as const]) {
      sockets.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: portOf(server),
    lead: (to) => {
      target = to;
      cut();
    },
    cutAt: (text, moment, since = /^/) => {
      const set = { text, moment, since };
      trap = set;
      return () => trap !== set;
    },
    close: () => {
      cut();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}
