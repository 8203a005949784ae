import { connect, createServer, type Socket } from 'node:net';
import { portOf } from '@space/broker-kit';

/** A TCP proxy in front of a server. A test can cut its connections at any moment or at a text, hold them, or direct them to another server. */
export interface TcpProxy {
  readonly port: number;
  /** The number of connections so far, which shows a client that reconnects in a loop. */
  readonly connections: number;
  /** Ends every connection, also in the middle of a message. */
  cut(): void;
  /** While held, no bytes are forwarded, and connections stay open. */
  hold(held: boolean): void;
  /** Open connections forward nothing any more, as when the node behind them is lost; new connections are served. */
  silence(): void;
  /** Directs new connections to this port, and cuts open ones. */
  lead(port: number): void;
  /**
   * Cuts the connection at the client's next message with this text: before the server reads it, or when the server answers it.
   * With `since`, only a transaction that has sent a match since its last BEGIN is cut, since the upkeep has transactions, too.
   * The returned function says whether that has happened.
   */
  cutAt(text: string, moment: 'before' | 'after', since?: RegExp): () => boolean;
  close(): Promise<void>;
}

/** The most characters of a transaction that are stored, since other traffic has no end. */
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
