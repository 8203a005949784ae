import { pino } from 'pino';

export type Logger = pino.Logger;
export type LogLevel = 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace' | 'silent';

/** One JSON object a line, on standard output unless told otherwise. */
export function createLogger(options: {
  service: string;
  level: LogLevel;
  destination?: pino.DestinationStream;
}): Logger {
  const settings: pino.LoggerOptions = {
    level: options.level,
    base: { service: options.service },
    timestamp: isoTime(),
    formatters: { level: (label) => ({ level: label }) },
    // Errors are logged as the few fields of `errorFields`; the default would print everything an error carries.
    serializers: { err: errorFields },
  };
  return options.destination === undefined ? pino(settings) : pino(settings, options.destination);
}

/** Lines of the same millisecond have the same time, and writing a date is most of what a short line costs. */
function isoTime(): () => string {
  let at = Number.NaN;
  let text = '';
  return () => {
    const now = Date.now();
    if (now !== at) {
      at = now;
      text = `,"time":"${new Date(now).toISOString()}"`;
    }
    return text;
  };
}

const ERROR_LEVEL = 50;
const PIECE_BYTES = 8 * 1024;

/**
 * Standard output for a service that logs a line per request: what comes within `delayMs` is one write. An error and
 * what came before it is written at once, and the rest when the process ends, unless it is killed.
 */
export function gatheredOutput(delayMs = 20): pino.DestinationStream {
  const output = pino.destination({ dest: 1, sync: true, minLength: PIECE_BYTES });
  let timer: NodeJS.Timeout | undefined;
  const flushSync = () => {
    clearTimeout(timer);
    timer = undefined;
    output.flushSync();
  };
  process.on('exit', flushSync);
  return {
    // Asks pino to set `lastLevel` before each line.
    [Symbol.for('pino.metadata')]: true,
    lastLevel: 0,
    flushSync,
    write(line: string) {
      output.write(line);
      if (this.lastLevel >= ERROR_LEVEL) flushSync();
      else timer ??= setTimeout(flushSync, delayMs).unref();
    },
  } as pino.DestinationStream & { lastLevel: number };
}

/** Errors of ours, whose messages are written to be logged. */
const OWN_ERRORS = new Set(['ServiceError', 'StepError', 'ConfigError', 'KeyringError', 'EnvelopeError']);

/** What may be said of an error: class, code, and our own step names; messages of foreign errors may quote data. */
export function errorFields(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) return { type: typeof error };
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined;
  const own = OWN_ERRORS.has(error.name);
  return {
    type: error.name,
    ...(code === undefined ? {} : { code }),
    ...(own ? { message: error.message } : {}),
    ...(error.cause === undefined ? {} : { cause: errorFields(error.cause) }),
    at: firstFrame(error),
  };
}

function firstFrame(error: Error): string | undefined {
  const frame = error.stack?.split('\n').find((line) => line.startsWith('    at '));
  return frame?.replace(/^ +at /, '').replace(/\(?(?:file:\/\/)?\/[^)]*\//, '(');
}
