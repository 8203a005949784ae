import { runAdministrator } from '@space/broker-kit/administrator';
import { COMMANDS } from './commands.ts';
import { readConfig } from './config.ts';
import { openContext } from './open.ts';

await runAdministrator({
  service: 'db-broker',
  commands: COMMANDS,
  logLevel: 'warn',
  open: async (log, held) => (await openContext(readConfig(process.env), log, held)).context,
});
