import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createLogger, stopSignal } from '@space/broker-kit';
import { startBroker } from './broker.ts';
import { readConfig } from './config.ts';

/** The driver document lies beside the bundle in the image, and in `manifests/` in a checkout. */
function driverPath(): string {
  const beside = join(import.meta.dirname, 'driver', 'postgres.json');
  return existsSync(beside) ? beside : join(import.meta.dirname, '../../manifests/driver/postgres.json');
}

const stopped = stopSignal();
const log = createLogger({ service: 'db-broker', level: 'info' });
try {
  const config = readConfig(process.env);
  log.level = config.LOG_LEVEL;
  const broker = await startBroker({ config, driverPath: driverPath(), log });
  log.info({ signal: await stopped }, 'draining');
  process.exitCode = (await broker.stop()) ? 0 : 1;
} catch (error) {
  log.fatal({ err: error }, 'cannot start');
  process.exitCode = 1;
}
// Signal handlers and half-open sockets must not keep a drained process.
process.exit();
