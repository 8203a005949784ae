import { gatheredOutput } from '@space/broker-kit';
import { runService } from '@space/broker-kit/service';
import { readConfig } from './config.ts';
import { startService } from './service.ts';

await runService({ name: 'egress', readConfig, start: startService, destination: gatheredOutput() });
