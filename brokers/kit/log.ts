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

/** Errors of ours, whose messages are written to be logged. */
const OWN_ERRORS = new Set([
  'ServiceError',
  'StepError',
  'ConfigError',
  'KeyringError',
  'EnvelopeError',
  'UnfitBucketError',
]);

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
