import { setTimeout as wait } from 'node:timers/promises';
import { stopSignal } from '@space/broker-kit';
import { runBackup } from './backup/commands.ts';

const stop = new AbortController();
stopSignal().then(() => stop.abort());

process.exitCode = await runBackup({
  args: process.argv.slice(2),
  environment: process.env,
  clock: { now: () => new Date(), pause: (ms, signal) => wait(ms, undefined, { signal }) },
  signal: stop.signal,
  out: console.log,
  error: console.error,
});
