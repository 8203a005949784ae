import { pino } from 'pino';

export type Logger = pino.Logger;
export type LogLevel = 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace' | 'silent';

/** One JSON object per line, on standard output by default. */
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

/**
 * Lines of the same millisecond share the formatted time, since formatting a date is most of the cost of a short line.
 */
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

/** Names of the services' own errors, whose messages contain nothing secret. */
const OWN_ERRORS = new Set([
  'ServiceError',
  'StepError',
  'ConfigError',
  'KeyringError',
  'EnvelopeError',
  'UnfitBucketError',
]);

/** What is logged of an error: class, code and step name. Messages of foreign errors may quote data. */
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
