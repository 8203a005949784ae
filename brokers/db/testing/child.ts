/**
 * A broker in a process of its own, to be killed: configured as `main.ts`, prints its port, and where FAILPOINT is
 * reached for the FAILPOINT_HIT-th time kills itself without any chance to tidy up.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createLogger } from '@space/broker-kit';
import pino from 'pino';
import { readConfig } from '../config.ts';
import { startService } from '../service.ts';

const { FAILPOINT, FAILPOINT_HIT, DRIVER_PATH: driverPath = '' } = process.env;
let left = Number(FAILPOINT_HIT ?? 1);
const failpoint = (name: string) => {
  if (name !== FAILPOINT) return;
  left -= 1;
  if (left === 0) process.kill(process.pid, 'SIGKILL');
};
const config = readConfig(process.env);
const log = createLogger({ service: 'db-broker', level: config.LOG_LEVEL, destination: pino.destination(2) });
const broker = await startService({ config, driverPath, log, failpoint });
process.stdout.write(`${JSON.stringify({ port: broker.port })}\n`);
// Asked for by a line: what is still held after a full collection, in bytes.
setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;
process.stdin.on('data', () => {
  collect();
  const { heapUsed, external } = process.memoryUsage();
  process.stdout.write(`${JSON.stringify({ held: heapUsed + external })}\n`);
});
// Exits with its parent process.
process.stdin.once('end', () => process.exit());
