import type { Socket } from 'node:net';

type Done = (error?: Error | null) => void;

/** How long an answer is looked for after the connection took no more. What has arrived is there at once. */
const LOOK_MS = 1_000;

/**
 * A server that refuses a request before it has read its body answers and closes, and writing the rest fails. Node destroys
 * a connection for that, with the answer unread in it. Here the failure waits until all that has come was read.
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

function isClosedByPeer(error: Error): boolean {
  return 'code' in error && (error.code === 'EPIPE' || error.code === 'ECONNRESET');
}
