import type { Socket } from 'node:net';
import type { Line } from './record.ts';

/** Milliseconds for which a client that has read the whole answer may neither send nor close. */
const CLOSE_WAIT_MS = 60_000;

interface Joining {
  readonly idleMs: number;
  readonly line: Line;
  /** Called when a side does not take what it is sent, with what ends the tunnel; the result is called when it does. */
  readonly stalled: (end: () => void) => () => void;
}

/**
 * Copies bytes in both directions until both sides have ended, one fails, or neither has sent for the idle time. Each
 * direction ends by itself: what a side has sent before its end is delivered, however slowly the other side reads.
 */
export function join(
  client: Socket,
  upstream: Socket,
  first: Buffer,
  { idleMs, line, stalled }: Joining,
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
    // For a second end, Node would create an error with a stack trace that nobody reads.
    const endClient = () => {
      if (!client.destroyed && !client.writableEnded) client.end();
    };
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
    upstream.once('error', endClient).once('close', endClient);
    // A socket that closed earlier emits no further event.
    if (upstream.destroyed || client.destroyed) {
      if (upstream.destroyed && line.code === 'ok') line.code = 'upstream_failed';
      return end();
    }
    upstream.write(first);
    client.pipe(upstream);
    upstream.pipe(client);
    const giveUp = () => {
      line.code = 'unavailable';
      end();
    };
    whileStalled(client, upstream, () => stalled(giveUp));
    whileStalled(upstream, client, () => stalled(giveUp));
  });
}

/** To be called after the pipe was made, whose listener writes each piece first. */
function whileStalled(from: Socket, to: Socket, begin: () => () => void): void {
  let over: (() => void) | undefined;
  const end = () => {
    over?.();
    over = undefined;
  };
  from.on('data', () => {
    if (over === undefined && to.writableNeedDrain) over = begin();
  });
  to.on('drain', end).once('close', end);
  from.once('close', end);
}
