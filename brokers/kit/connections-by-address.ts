import type { Server, Socket } from 'node:net';
import { parseAddress } from './net/address.ts';

/** A counter of connections, and the greatest number that it may reach. */
export interface ConnectionShare {
  readonly key: string;
  readonly most: number;
}

/**
 * The counters of an address. The first is its owner's, which gives a connection up when all are taken and it has the
 * most.
 */
export type SharesOf = (address: string) => readonly [ConnectionShare, ...ConnectionShare[]];

/**
 * Why a connection was closed unread: one of its counters is full; all connections are taken and no owner has more than
 * this one; or it was given up for an owner with fewer.
 */
export type ConnectionRefusal = 'share' | 'full' | 'ceded';

export interface ConnectionBounds {
  /** The greatest number of connections in all. */
  readonly total: number;
  readonly shares: SharesOf;
  readonly onRefused: (reason: ConnectionRefusal) => void;
  /** Called with the number of open connections when it changes. */
  readonly onCount?: (open: number) => void;
}

/**
 * Bounds the connections of a server of any protocol, since each costs memory, and with TLS also a signature, before
 * its caller has shown a credential. Excess connections are closed before a byte of them is read. When all are taken,
 * the owner with the most gives one up for an owner with fewer, so that greedy addresses never exclude a modest one. It
 * must be called before the server listens.
 */
export function boundConnections(server: Server, bounds: ConnectionBounds): void {
  const { total, shares, onRefused, onCount = () => undefined } = bounds;
  const owners = new Map<string, Set<Socket>>();
  const counts = new Map<string, number>();
  const leave = new WeakMap<Socket, () => void>();
  let open = 0;

  function admit(socket: Socket): boolean {
    const { remoteAddress } = socket;
    // The connection is closed already.
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

  // The server's own listener would parse or begin a handshake, so it must not be called for a refused connection.
  const listeners = server.listeners('connection');
  server.removeAllListeners('connection');
  server.on('connection', (socket: Socket) => {
    if (!admit(socket)) return void socket.destroy();
    for (const listener of listeners) Reflect.apply(listener, server, [socket]);
  });
}

/**
 * The same bound for every address. In IPv6 one owner may have a whole /64, but so may all pods of a node: such a block
 * gets at most half of all connections, and each of its addresses no more than any other address.
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

/** The newest connection of the owner with the most, if that owner then still has more than the new one. */
function newestOfGreediest(owners: ReadonlyMap<string, Set<Socket>>, mine: number): Socket | undefined {
  let greediest: Set<Socket> = new Set();
  for (const sockets of owners.values()) if (sockets.size > greediest.size) greediest = sockets;
  return greediest.size > mine + 1 ? [...greediest].at(-1) : undefined;
}
