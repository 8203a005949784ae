import type { Socket } from 'node:net';

type Done = (error?: Error | null) => void;

/** Milliseconds for which an answer is read after a failed write; data that has arrived is read at once. */
const LOOK_MS = 1_000;

/**
 * Delays the failure of a write until the received data was read. A server that refuses a request before its body was
 * read answers and closes, so that writing the rest fails; Node would then destroy the connection with the unread
 * answer.
 */
export function hearing<To extends Socket>(socket: To): To {
  const later =
    (done: Done): Done =>
    (error) => {
      if (error == null || !isClosedByPeer(error)) return done(error);
      const end = () => {
        clearTimeout(timer);
        socket.off('close', end);
        done(error);
      };
      const timer = setTimeout(end, LOOK_MS);
      socket.once('close', end);
    };
  const write = socket._write.bind(socket);
  const writeMany = socket._writev?.bind(socket);
  socket._write = (piece, encoding, done) => write(piece, encoding, later(done));
  if (writeMany !== undefined) socket._writev = (pieces, done) => writeMany(pieces, later(done));
  return socket;
}

export function isClosedByPeer(error: Error): boolean {
  return 'code' in error && (error.code === 'EPIPE' || error.code === 'ECONNRESET');
}
