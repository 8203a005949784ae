import { gatheredOutput } from '@space/broker-kit';
import { driverDirectory, runService } from '@space/broker-kit/service';
import { readConfig } from './config.ts';
import { startService } from './service.ts';

const documents = driverDirectory(import.meta.dirname);

await runService({
  name: 'objectstore-broker',
  readConfig,
  start: (config, log) => startService({ config, driverDirectory: documents, log }),
  destination: gatheredOutput(),
});
