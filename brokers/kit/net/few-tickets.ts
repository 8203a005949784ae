import type { TLSSocket } from 'node:tls';

/** Most servers send two, and none this many. */
const MOST_TICKETS = 32;

/**
 * Calls `end` when the host of a connection of TLS 1.3 has sent more tickets of its session than any server does: each takes 14 µs
 * and is no data, so nothing else would end it.
 */
export function onManyTickets(socket: TLSSocket, end: () => void): void {
  let tickets = 0;
  socket.on('session', () => {
    tickets += 1;
    if (tickets > MOST_TICKETS) end();
  });
}
