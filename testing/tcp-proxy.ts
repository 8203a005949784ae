import { connect, createServer, type Socket } from 'node:net';
import { portOf } from '@space/broker-kit';

/** A TCP line to a server, which a test may cut at any moment or at a text, hold still, or lead to another server. */
export interface TcpProxy {
  readonly port: number;
  /** Connections made so far: a client in a hot loop makes many. */
  readonly connections: number;
  /** Ends every connection, wherever its bytes are. */
  cut(): void;
  /** While held, bytes go nowhere and nobody is told. */
  hold(held: boolean): void;
  /** Those that are open fall silent for ever, as when the node behind them is lost; new connections are served. */
  silence(): void;
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

/** Characters of a transaction that are kept: whatever else goes over a line has no end. */
const LONGEST_TRANSACTION = 65_536;

export async function openTcpProxy(server: {
  readonly host?: string;
  readonly port: number;
}): Promise<TcpProxy> {
  const { host = '127.0.0.1' } = server;
  let target = server.port;
  let trap: { text: string; moment: 'before' | 'after'; since: RegExp } | undefined;
  let held = false;
  let connections = 0;
  const sockets = new Set<Socket>();
  const silent = new WeakSet<Socket>();
  const listener = createServer((near) => {
    connections += 1;
    const far = connect(target, host);
    let losing = false;
    let transaction = '';
    near.on('data', (bytes) => {
      transaction = (transaction + bytes.toString('latin1')).slice(-LONGEST_TRANSACTION);
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
      if (held) socket.pause();
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
    }
  });
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: portOf(listener),
    get connections() {
      return connections;
    },
    cut,
    hold(now) {
      held = now;
      for (const socket of sockets) now || silent.has(socket) ? socket.pause() : socket.resume();
    },
    silence() {
      for (const socket of sockets) silent.add(socket.pause());
    },
    lead(port) {
      target = port;
      cut();
    },
    cutAt(text, moment, since = /^/) {
      const set = { text, moment, since };
      trap = set;
      return () => trap !== set;
    },
    close() {
      cut();
      return new Promise((resolve) => listener.close(() => resolve()));
    },
  };
}
