import type { Socket } from 'node:net';

/**
 * A piece of a body is memory outside of the heap. Left to the collector, it counts as growth of all of it, and a
 * stream would have the whole heap marked every ten MiB or so; so each is freed as soon as it was sent.
 */

/** Smaller ones are not worth it. */
const LEAST_BYTES = 4 * 1024;

/** What goes with the sending of a piece: its own memory, or that of the one whose last part it is. */
const going = new WeakMap<Uint8Array, ArrayBuffer>();

/** Frees a piece that somebody has taken, and copied what he wants to keep. */
export function free(piece: Buffer): void {
  memoryOf(piece)?.transfer(0);
}

/** Says that nobody reads the piece any more once a connection has taken it. */
export function giveAway(piece: Buffer): Buffer {
  const memory = memoryOf(piece);
  if (memory !== undefined) going.set(piece, memory);
  return piece;
}

/** Says that `last` is sent last of all parts of a piece: if that was given away, it goes with it. */
export function cutLast(last: Buffer, piece: Buffer): Buffer {
  const memory = going.get(piece);
  if (memory !== undefined) going.set(last, memory);
  return last;
}

/** Frees what was given away when the connection has taken it. */
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

/** A part of something larger is not ours alone, and an empty piece may be a constant of the parser's. */
function memoryOf({ buffer, byteLength }: Buffer): ArrayBuffer | undefined {
  const whole = buffer instanceof ArrayBuffer && buffer.byteLength === byteLength;
  return whole && byteLength >= LEAST_BYTES ? buffer : undefined;
}
