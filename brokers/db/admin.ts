import { runAdministrator } from '@space/broker-kit/administrator';
import { COMMANDS } from './commands.ts';
import { readConfig } from './config.ts';
import { openFleet } from './servers/fleet.ts';

await runAdministrator({
  service: 'db-broker',
  commands: COMMANDS,
  logLevel: 'warn',
  open: async (log, resources) =>
    (await openFleet({ config: readConfig(process.env), log, resources })).servers,
});
