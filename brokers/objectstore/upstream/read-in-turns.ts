import type { Socket } from 'node:net';
import { isClosedByPeer } from './early-answers.ts';
import type { Passing } from './relay.ts';

/**
 * Lets what a server sends be read, and so parsed, in turns, while others have requests: it may send any number of bytes that are
 * no part of a body, such as extensions of chunks. Until they are read, the server has to wait. What a server has sent before it
 * resets the connection, such as a refusal of a body, is read at once.
 */
export function readingInTurns<To extends Socket>(socket: To, { isShared, inTurn }: Passing): To {
  const plain = socket.read.bind(socket);
  const plainDestroy = socket.destroy.bind(socket);
  let isTurn = false;
  let waits = false;
  const takeTurn = () => {
    waits = false;
    isTurn = true;
    // Its parser reads what it is told to be there.
    if (!socket.destroyed) socket.emit('readable');
    isTurn = false;
  };
  const wait = () => {
    waits = true;
    inTurn(takeTurn).catch((error: Error) => socket.destroy(error));
  };
  const read = (size?: number) => {
    // Nothing is taken by a read of no bytes, which only lets more arrive.
    if (size === 0 || socket.readableLength === 0) return plain(size);
    if (isTurn || !isShared()) {
      isTurn = false;
      return plain(size);
    }
    if (!waits) wait();
    return null;
  };
  const destroy = (error?: Error) => {
    if (waits && error !== undefined && isClosedByPeer(error)) takeTurn();
    return plainDestroy(error);
  };
  return Object.assign(socket, { read, destroy });
}
