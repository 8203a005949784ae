import { writeSync } from 'node:fs';
import type { pino } from 'pino';

const ERROR_LEVEL = 50;
const STANDARD_OUTPUT = 1;
/** Half of a pipe's capacity, so that its reader can empty the other half before a write blocks. */
const BUFFER_BYTES = 32 * 1024;
/** The most bytes of UTF-8 that one UTF-16 code unit of a line takes. */
const BYTES_PER_UNIT = 3;

/**
 * Standard output for a service that logs a line for each request: lines of the same `delayMs` are written together. An
 * error is written at once with the lines before it, and the rest is written when the process ends, unless it is
 * killed.
 */
export function gatheredOutput(delayMs = 20): pino.DestinationStream {
  // Lines are copied when they arrive, since strings that wait would survive garbage collections.
  const buffer = Buffer.allocUnsafeSlow(BUFFER_BYTES);
  let used = 0;
  let timer: NodeJS.Timeout | undefined;
  const flushSync = () => {
    clearTimeout(timer);
    timer = undefined;
    const gathered = buffer.subarray(0, used);
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
      if (line.length * BYTES_PER_UNIT > BUFFER_BYTES - used) flushSync();
      if (line.length * BYTES_PER_UNIT > BUFFER_BYTES) writeAll(Buffer.from(line));
      else used += buffer.write(line, used);
      if (this.lastLevel >= ERROR_LEVEL) flushSync();
      else timer ??= setTimeout(flushSync, delayMs).unref();
    },
  } as pino.DestinationStream & { lastLevel: number };
}

const pause = new Int32Array(new SharedArrayBuffer(4));

/** Waits for a slow reader, so that no line is lost; if the reader is gone, the lines are dropped. */
function writeAll(bytes: Buffer): void {
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeSync(STANDARD_OUTPUT, bytes, at);
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? error.code : undefined;
      if (code === 'EPIPE') return;
      if (code !== 'EAGAIN') throw error;
      // Another process that shares the output has made it non-blocking, so it is tried again after a pause.
      Atomics.wait(pause, 0, 0, 1);
    }
  }
}
