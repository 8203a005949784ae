import { createLogger, stopSignal } from '@space/broker-kit';
import { readConfig } from './config.ts';
import { startConsole } from './console.ts';

const stopped = stopSignal();
const log = createLogger({ service: 'console', level: 'info' });
try {
  const config = readConfig(process.env);
  log.level = config.LOG_LEVEL;
  const console = await startConsole({ config, log });
  log.info({ signal: await stopped }, 'draining');
  process.exitCode = (await console.stop()) ? 0 : 1;
} catch (error) {
  log.fatal({ err: error }, 'cannot start');
  process.exitCode = 1;
}
process.exit();
