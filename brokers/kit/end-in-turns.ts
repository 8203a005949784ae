import type { Duplex } from 'node:stream';

/** The number of connections that are closed in one turn of the event loop. */
const A_TURN = 32;

/**
 * Closes connections, a few in each turn. Thousands that were opened together and sent nothing time out together, and
 * closing them all at once would block the process for a fifth of a second.
 */
export function endInTurns(): (socket: Duplex) => void {
  let due: Duplex[] = [];
  const some = () => {
    const now = due.slice(0, A_TURN);
    due = due.slice(A_TURN);
    if (due.length > 0) setImmediate(some);
    for (const socket of now) socket.destroy();
  };
  return (socket) => {
    due.push(socket);
    if (due.length === 1) setImmediate(some);
  };
}
