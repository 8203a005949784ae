/**
 * `node keys.mjs keep`, as a Job when a Space is installed and every hour after: keeps its keys and certificates. Ends with
 * 1 where it refused something, and says what and what to do. `adopt` and `clear` come before and after an upgrade from a
 * chart that had made the keys, and had the operator in the release's namespace: see adopt.ts and move.ts.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { KubeConfig } from '@kubernetes/client-node';
import { pino } from 'pino';
import { apiClient } from '../runtime/client.ts';
import { connect } from '../runtime/connection.ts';
import { adoptKeys } from './adopt.ts';
import { adviceOn } from './advice.ts';
import { clusterOf } from './cluster.ts';
import { keepKeys } from './keep.ts';
import { clearOut, copyOut } from './move.ts';
import { type Run, schema } from './options.ts';

const [command] = process.argv.slice(2);
if (command !== 'keep' && command !== 'adopt' && command !== 'clear') {
  console.error('usage: keys.mjs keep | adopt | clear');
  process.exit(2);
}
const { KEYS: options } = schema.parse(process.env);
const log = pino({
  base: { service: 'keys', space: options.space },
  timestamp: pino.stdTimeFunctions.isoTime,
  formatters: { level: (level) => ({ level }) },
});
const kubeConfig = new KubeConfig();
kubeConfig.loadFromDefault();
const connection = connect(kubeConfig);
const client = apiClient(connection);
const cluster = clusterOf(client, `space-keys-${randomBytes(4).toString('hex')}`);
const tell: Run['tell'] = (did, what, why) => {
  log[did === 'refused' ? 'error' : did === 'differs' ? 'warn' : 'info']({ secret: what, why }, did);
};
const run = { ...options, cluster, now: new Date(), tell };
const move = { run, client, wait: () => sleep(500) };
try {
  if (command === 'adopt') {
    await adoptKeys(run);
    await copyOut(move);
  } else if (command === 'clear') await clearOut(move);
  else if ((await keepKeys(run)) > 0) process.exitCode = 1;
  log.info('done');
} catch (error) {
  log.fatal({ err: error }, adviceOn(error));
  process.exitCode = 1;
} finally {
  await connection.close();
}
