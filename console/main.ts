import { runService } from '@space/broker-kit/service';
import { readConfig } from './config.ts';
import { startConsole } from './service.ts';

await runService({
  name: 'console',
  readConfig,
  start: (config, log) => startConsole({ config, log }),
});
