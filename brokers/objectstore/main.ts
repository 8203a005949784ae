import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createLogger, gatheredOutput, stopSignal } from '@space/broker-kit';
import { startBroker } from './broker.ts';
import { readConfig } from './config.ts';

/** The driver documents lie beside the bundle in the image, and in `manifests/` in a checkout. */
function driverDirectory(): string {
  const beside = join(import.meta.dirname, 'driver');
  const documents = existsSync(join(beside, 'objectstore.json'))
    ? beside
    : join(import.meta.dirname, '../../manifests/driver');
  return documents;
}

const stopped = stopSignal();
const log = createLogger({
  service: 'objectstore-broker',
  level: 'info',
  destination: gatheredOutput(),
});
try {
  const config = readConfig(process.env);
  log.level = config.LOG_LEVEL;
  const broker = await startBroker({ config, driverDirectory: driverDirectory(), log });
  log.info({ signal: await stopped }, 'draining');
  process.exitCode = (await broker.stop()) ? 0 : 1;
} catch (error) {
  log.fatal({ err: error }, 'cannot start');
  process.exitCode = 1;
}
// Signal handlers and half-open sockets must not keep a drained process.
process.exit();
