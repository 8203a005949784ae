import { writeSync } from 'node:fs';
import type { pino } from 'pino';

const ERROR_LEVEL = 50;
const STANDARD_OUTPUT = 1;
/** Half of what a pipe holds, so that its reader has the time of the other half before a write waits for it. */
const ROOM_BYTES = 32 * 1024;
/** Of one byte of text, in UTF-8. */
const WIDEST = 3;

/**
 * Standard output for a service that logs a line per request: what comes within `delayMs` is one write. An error and
 * what came before it is written at once, and the rest when the process ends, unless it is killed.
 */
export function gatheredOutput(delayMs = 20): pino.DestinationStream {
  // Lines are copied as they come: as strings that wait they would outlive a collection each.
  const room = Buffer.allocUnsafeSlow(ROOM_BYTES);
  let used = 0;
  let timer: NodeJS.Timeout | undefined;
  const flushSync = () => {
    clearTimeout(timer);
    timer = undefined;
    const gathered = room.subarray(0, used);
    used = 0;
    writeAll(gathered);
  };
  process.on('exit', flushSync);
  return {
    // Asks pino to set `lastLevel` before each line.
    [Symbol.for('pino.metadata')]: true,
    lastLevel: 0,
    flushSync,
    write(line: string) {
      if (line.length * WIDEST > ROOM_BYTES - used) flushSync();
      if (line.length * WIDEST > ROOM_BYTES) writeAll(Buffer.from(line));
      else used += room.write(line, used);
      if (this.lastLevel >= ERROR_LEVEL) flushSync();
      else timer ??= setTimeout(flushSync, delayMs).unref();
    },
  } as pino.DestinationStream & { lastLevel: number };
}

const pause = new Int32Array(new SharedArrayBuffer(4));

/** Waits for a reader that is behind: a line is never thrown away. Without any reader there is nobody to wait for. */
function writeAll(bytes: Buffer): void {
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeSync(STANDARD_OUTPUT, bytes, at);
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? error.code : undefined;
      if (code === 'EPIPE') return;
      if (code !== 'EAGAIN') throw error;
      // Whoever shares the output has made it one that does not wait by itself.
      Atomics.wait(pause, 0, 0, 1);
    }
  }
}
