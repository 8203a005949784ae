/**
 * The administrator's program in a process of its own, to be killed: where FAILPOINT is reached for the FAILPOINT_HIT-th time
 * it kills itself without any chance to tidy up.
 */
import { createLogger } from '@space/broker-kit';
import pino from 'pino';
import { COMMANDS } from '../commands.ts';
import { readConfig } from '../config.ts';
import { openFleet } from '../servers/fleet.ts';

const { FAILPOINT, FAILPOINT_HIT } = process.env;
let left = Number(FAILPOINT_HIT ?? 1);
const failpoint = (name: string) => {
  if (name !== FAILPOINT) return;
  left -= 1;
  if (left === 0) process.kill(process.pid, 'SIGKILL');
};
const log = createLogger({ service: 'db-broker-admin', level: 'warn', destination: pino.destination(2) });
const resources = { closers: [], files: [] };
const { servers } = await openFleet({ config: readConfig(process.env), log, resources, failpoint });
const [name = '', ...args] = process.argv.slice(2);
const answer = await COMMANDS[name]?.run(servers, 'd'.repeat(32), args, async () => '');
process.stdout.write(`${JSON.stringify(answer)}\n`);
process.exit();
