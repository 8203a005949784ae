import type { Duplex } from 'node:stream';

/** This many are ended in one turn of the event loop. */
const A_TURN = 32;

/**
 * Ends connections, a few in each turn: thousands that came together and said nothing are due together too, and to end
 * them all at once is a fifth of a second in which nobody is served.
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
