import type { Socket } from 'node:net';
import type { Passing } from './passing.ts';
import type { Line } from './record.ts';

/** Milliseconds for which a client that has read the whole answer may neither send nor close. */
const CLOSE_WAIT_MS = 60_000;

interface Joining {
  readonly idleMs: number;
  readonly line: Line;
  /** Called when a side does not take what it is sent, with what ends the tunnel; the result is called when it does. */
  readonly stalled: (end: () => void) => () => void;
  readonly passing: Passing;
}

/**
 * Copies bytes in both directions until both sides have ended, one fails, or neither has sent for the idle time. Each
 * direction ends by itself: what a side has sent before its end is delivered, however slowly the other side reads.
 */
export function join(
  client: Socket,
  upstream: Socket,
  first: Buffer,
  { idleMs, line, stalled, passing }: Joining,
): Promise<void> {
  return new Promise((resolve) => {
    let [clientDone, upstreamDone] = [false, false];
    const end = () => {
      clearTimeout(idle);
      client.destroy();
      upstream.destroy();
      resolve();
    };
    const idle = setTimeout(end, idleMs);
    const endWhenBothDone = () => {
      if (upstreamDone && clientDone) end();
    };
    // Otherwise the end of an answer would cut off what the client still sends.
    upstream.allowHalfOpen = true;
    line.bytesOut += first.length;
    client.on('data', (chunk: Buffer) => {
      line.bytesOut += chunk.length;
      idle.refresh();
    });
    upstream.on('data', (chunk: Buffer) => {
      line.bytesIn += chunk.length;
      idle.refresh();
    });
    // A side that reads slowly is not idle.
    client.on('drain', () => idle.refresh());
    upstream.on('drain', () => idle.refresh());
    upstream.once('finish', () => {
      upstreamDone = true;
      endWhenBothDone();
    });
    client.once('finish', () => {
      clientDone = true;
      endWhenBothDone();
      const closeTimer = setTimeout(end, Math.min(idleMs, CLOSE_WAIT_MS));
      client.on('data', () => closeTimer.refresh()).once('close', () => clearTimeout(closeTimer));
    });
    // A client that closes early has aborted; what an upstream sent before it closed is still delivered.
    client.once('close', end).once('error', end);
    // A socket that closed earlier emits no further event.
    if (upstream.destroyed || client.destroyed) {
      if (upstream.destroyed && line.code === 'ok') line.code = 'upstream_failed';
      return end();
    }
    upstream.write(first);
    const giveUp = () => {
      line.code = 'unavailable';
      end();
    };
    copy(client, upstream, { passing, stalled: () => stalled(giveUp) });
    const endClient = copy(upstream, client, { passing, stalled: () => stalled(giveUp) });
    upstream.once('error', endClient).once('close', endClient);
  });
}

interface Copying {
  readonly passing: Passing;
  readonly stalled: () => () => void;
}

/**
 * Copies what one side sends to the other, and its end. While there are other Capsules, each piece waits for its Capsule's turn,
 * and its side is not read meanwhile: 2 MiB of a connection are read in a row otherwise, of each one in every round. The result
 * ends the receiver after what has come.
 */
function copy(from: Socket, to: Socket, { passing, stalled }: Copying): () => void {
  /** Pieces that wait for their turn or for the receiver; they are few, since their side is not read meanwhile. */
  const pieces: Buffer[] = [];
  let [waits, ended] = [false, false];
  let taken: (() => void) | undefined;
  const write = (piece: Buffer) => {
    if (to.writable && to.write(piece)) return;
    from.pause();
    if (to.writable) taken ??= stalled();
  };
  /** Continues with the next piece in its turn, with the end if there is none, or with reading. */
  const proceed = () => {
    if (waits || to.writableNeedDrain || !to.writable) return;
    if (pieces.length > 0) {
      waits = true;
      passing.inTurn(writeNext);
    } else if (ended) to.end();
    else from.resume();
  };
  const writeNext = () => {
    waits = false;
    const piece = pieces.shift();
    if (piece !== undefined) write(piece);
    proceed();
  };
  const end = () => {
    ended = true;
    proceed();
  };
  const receiverReads = () => {
    taken?.();
    taken = undefined;
  };
  from
    .on('data', (piece: Buffer) => {
      if (pieces.length === 0 && !passing.isShared()) return write(piece);
      pieces.push(piece);
      from.pause();
      proceed();
    })
    .once('end', end)
    .once('close', receiverReads);
  to.on('drain', () => {
    receiverReads();
    proceed();
  }).once('close', receiverReads);
  // The first bytes may have filled it.
  if (to.writableNeedDrain) from.pause();
  else from.resume();
  return end;
}
