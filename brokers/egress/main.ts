import { createLogger, gatheredOutput, stopSignal } from '@space/broker-kit';
import { readConfig } from './config.ts';
import { startService } from './service.ts';

const stopped = stopSignal();
const log = createLogger({ service: 'egress', level: 'info', destination: gatheredOutput() });
try {
  const config = readConfig(process.env);
  log.level = config.LOG_LEVEL;
  const service = await startService(config, log);
  log.info({ signal: await stopped }, 'draining');
  process.exitCode = (await service.stop()) ? 0 : 1;
} catch (error) {
  log.fatal({ err: error }, 'cannot start');
  process.exitCode = 1;
}
// Signal handlers and half-open sockets must not keep a drained process.
process.exit();
