import type { Socket } from 'node:net';
import { memoryOf } from '@space/broker-kit';

/** A piece of a body is freed as soon as it was sent, and not by the garbage collector. */

/** The memory that is freed after a piece was sent: its own, or that of the piece whose last part it is. */
const going = new WeakMap<Uint8Array, ArrayBuffer>();

/** Marks a piece that nobody reads after a connection has sent it. */
export function giveAway(piece: Buffer): Buffer {
  const memory = memoryOf(piece);
  if (memory !== undefined) going.set(piece, memory);
  return piece;
}

/** Marks `last` as the part that is sent last of a piece; if that piece was given away, it is freed then. */
export function cutLast(last: Buffer, piece: Buffer): Buffer {
  const memory = going.get(piece);
  if (memory !== undefined) going.set(last, memory);
  return last;
}

/** Frees pieces that were given away, after the connection has sent them. */
export function freeing<To extends Socket>(socket: To): To {
  const plain: Write = socket.write.bind(socket) as Write;
  const write: Write = (data, ...rest) => {
    const memory = typeof data === 'string' ? undefined : going.get(data);
    if (memory === undefined) return plain(data, ...rest);
    return plain(data, (error) => void (error ?? memory.transfer(0)));
  };
  return Object.assign(socket, { write });
}

type Written = (error?: Error | null) => void;
type Write = (data: string | Uint8Array, ...rest: [Written?] | [BufferEncoding, Written?]) => boolean;
