import type { Server, Socket } from 'node:net';
import { parseAddress } from './net/address.ts';

/** Something that a connection counts towards, and how many connections that may have. */
export interface ConnectionShare {
  readonly key: string;
  readonly most: number;
}

/** The shares of an address; the first is its owner's, who gives way when all are taken and he has the most. */
export type SharesOf = (address: string) => readonly [ConnectionShare, ...ConnectionShare[]];

/**
 * Why a connection was ended unheard: one of its shares is used up; all connections are taken and nobody has more of
 * them than its own owner; or it gave way to somebody who has fewer.
 */
export type ConnectionRefusal = 'share' | 'full' | 'ceded';

export interface ConnectionBounds {
  /** Connections in all. */
  readonly total: number;
  readonly shares: SharesOf;
  readonly onRefused: (reason: ConnectionRefusal) => void;
  /** Told how many are open whenever that changes. */
  readonly onCount?: (open: number) => void;
}

/**
 * Bounds the connections of a server, whatever it speaks: each costs memory before its caller has shown a credential
 * and, with TLS, a signature too. The excess is ended before a byte of it is read. When all are taken, whoever has the
 * most gives one up for whoever has fewer, so that no number of greedy addresses keeps a modest one out.
 *
 * Call it before the server listens.
 */
export function boundConnections(server: Server, bounds: ConnectionBounds): void {
  const { total, shares, onRefused, onCount = () => undefined } = bounds;
  const owners = new Map<string, Set<Socket>>();
  const counts = new Map<string, number>();
  const leave = new WeakMap<Socket, () => void>();
  let open = 0;

  function admit(socket: Socket): boolean {
    const { remoteAddress } = socket;
    // Gone already.
    if (remoteAddress === undefined) return false;
    const mine = shares(remoteAddress);
    if (mine.some(({ key, most }) => (counts.get(key) ?? 0) >= most)) {
      onRefused('share');
      return false;
    }
    if (open >= total) {
      const ceded = newestOfGreediest(owners, counts.get(mine[0].key) ?? 0);
      onRefused(ceded === undefined ? 'full' : 'ceded');
      if (ceded === undefined) return false;
      leave.get(ceded)?.();
      ceded.destroy();
    }
    enter(socket, mine);
    return true;
  }

  function enter(socket: Socket, mine: ReturnType<SharesOf>): void {
    const [{ key: owner }] = mine;
    const sockets = owners.get(owner) ?? new Set();
    owners.set(owner, sockets.add(socket));
    for (const { key } of mine) add(counts, key, 1);
    onCount(++open);
    leave.set(socket, () => {
      leave.delete(socket);
      sockets.delete(socket);
      if (sockets.size === 0) owners.delete(owner);
      for (const { key } of mine) add(counts, key, -1);
      onCount(--open);
    });
    socket.once('close', () => leave.get(socket)?.());
  }

  // The server's own listener parses, or begins a handshake: it must not hear of a connection that is turned away.
  const listeners = server.listeners('connection');
  server.removeAllListeners('connection');
  server.on('connection', (socket: Socket) => {
    if (!admit(socket)) return void socket.destroy();
    for (const listener of listeners) Reflect.apply(listener, server, [socket]);
  });
}

/**
 * The same bound for every address. Of IPv6 one holder may have a whole /64, but so may all pods of one node: such a
 * block gets half of all at most, and each of its addresses no more than any other.
 */
export function sharesByAddress(limits: { readonly total: number; readonly perAddress: number }): SharesOf {
  const { total, perAddress } = limits;
  return (text) => {
    const address = text.replace(/%.*$/, '').replace(/^::ffff:(?=[0-9.]+$)/i, '');
    const own = { key: address, most: perAddress };
    const bytes = parseAddress(address);
    if (bytes === undefined || bytes.length === 4) return [own];
    const block = {
      key: `${bytes.slice(0, 8).join('.')}/64`,
      most: Math.max(perAddress, Math.floor(total / 2)),
    };
    return [own, block];
  };
}

function add(counts: Map<string, number>, key: string, change: 1 | -1): void {
  const count = (counts.get(key) ?? 0) + change;
  if (count === 0) counts.delete(key);
  else counts.set(key, count);
}

/** Somebody gives way only where he has more left then than the other will have. */
function newestOfGreediest(owners: ReadonlyMap<string, Set<Socket>>, mine: number): Socket | undefined {
  let greediest: Set<Socket> = new Set();
  for (const sockets of owners.values()) if (sockets.size > greediest.size) greediest = sockets;
  return greediest.size > mine + 1 ? [...greediest].at(-1) : undefined;
}
