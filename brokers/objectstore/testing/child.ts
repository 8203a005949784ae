/**
 * A broker in a process of its own, to be killed: configured as `main.ts`, prints its ports, and where FAILPOINT is
 * reached for the FAILPOINT_HIT-th time kills itself without any chance to tidy up.
 */
import { createLogger } from '@space/broker-kit';
import pino from 'pino';
import { readConfig } from '../config.ts';
import { startService } from '../service.ts';
import { DRIVER_DIRECTORY } from './broker.ts';

const { FAILPOINT, FAILPOINT_HIT } = process.env;
let left = Number(FAILPOINT_HIT ?? 1);
const failpoint = (name: string) => {
  if (name !== FAILPOINT) return;
  left -= 1;
  if (left === 0) process.kill(process.pid, 'SIGKILL');
};
const config = readConfig(process.env);
const log = createLogger({
  service: 'objectstore-broker',
  level: config.LOG_LEVEL,
  destination: pino.destination(2),
});
const broker = await startService({ config, driverDirectory: DRIVER_DIRECTORY, log, failpoint });
process.stdout.write(`${JSON.stringify({ port: broker.port, dataPort: broker.dataPort })}\n`);
// Exits with its parent process.
process.stdin.resume().once('end', () => process.exit());
