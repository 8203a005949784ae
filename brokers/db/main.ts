import { join } from 'node:path';
import { driverDirectory, runService } from '@space/broker-kit/service';
import { readConfig } from './config.ts';
import { startService } from './service.ts';

const driverPath = join(driverDirectory(import.meta.dirname), 'postgres.json');

await runService({
  name: 'db-broker',
  readConfig,
  start: (config, log) => startService({ config, driverPath, log }),
});
