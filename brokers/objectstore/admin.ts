/**
 * `node /app/admin.mjs COMMAND …`, in the broker's container: the administrator's commands, each audited. Reaching
 * the container is the authority; no route of the broker leads here.
 */
import { randomBytes } from 'node:crypto';
import { text } from 'node:stream/consumers';
import { closeAll, createLogger, type Held, ServiceError } from '@space/broker-kit';
import pino from 'pino';
import { COMMANDS, UsageError } from './commands.ts';
import { readConfig } from './config.ts';
import { openContext } from './open.ts';

const [name = '', ...args] = process.argv.slice(2);
const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
const held: Held = { closers: [], files: [] };

if (command === undefined) {
  console.error('usage: node /app/admin.mjs COMMAND\n');
  for (const { usage, about } of Object.values(COMMANDS)) console.error(`  ${usage}\n      ${about}`);
  process.exitCode = 2;
} else {
  const traceId = randomBytes(16).toString('hex');
  const destination = pino.destination(2);
  const log = createLogger({ service: 'objectstore-broker-admin', level: 'fatal', destination });
  try {
    const { context } = await openContext(readConfig(process.env), log, held);
    const result = await command.run(context, traceId, args, () => text(process.stdin));
    console.log(typeof result === 'string' ? result : JSON.stringify(result));
  } catch (error) {
    const said = error instanceof ServiceError || error instanceof UsageError;
    console.error(said ? error.message : `${name} failed; trace ${traceId}`);
    if (!said) log.fatal({ trace_id: traceId, err: error }, 'command failed');
    process.exitCode = error instanceof UsageError ? 2 : 1;
  } finally {
    await closeAll(held);
  }
}
