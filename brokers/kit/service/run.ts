import type { Environment } from '../config.ts';
import { createLogger, type Logger, type LogLevel } from '../log.ts';
import { stopSignal } from '../shutdown.ts';

export interface Program<Config> {
  readonly name: string;
  readonly readConfig: (environment: Environment) => Config;
  readonly start: (config: Config, log: Logger) => Promise<{ stop(): Promise<boolean> }>;
  /** The destination of log lines; standard output by default. */
  readonly destination?: NonNullable<Parameters<typeof createLogger>[0]['destination']>;
}

/** Runs a service from its configuration until a signal. The exit code is 0 only if everything succeeded. */
export async function runService<Config extends { readonly LOG_LEVEL: LogLevel }>(
  program: Program<Config>,
): Promise<never> {
  const { name, readConfig, start, destination } = program;
  const stopped = stopSignal();
  const log = createLogger({ service: name, level: 'info', ...(destination ? { destination } : {}) });
  try {
    const config = readConfig(process.env);
    log.level = config.LOG_LEVEL;
    const service = await start(config, log);
    log.info({ signal: await stopped }, 'draining');
    process.exitCode = (await service.stop()) ? 0 : 1;
  } catch (error) {
    log.fatal({ err: error }, 'cannot start');
    process.exitCode = 1;
  }
  // Signal handlers and half-open sockets must not keep the process alive.
  process.exit();
}
