/** `npm run fuzz:db [-- --examples N]`: with each credential of the database broker, with a wrong one and with none. */
import { resolve } from 'node:path';
import { newToken } from '@space/broker-kit';
import { fuzz, GENEROUS } from '../../kit/testing/schemathesis.ts';
import { setStage } from './postgres.ts';

const stage = await setStage({}, { environment: GENEROUS });
let good = false;
try {
  const capsule = await stage.broker.capsule('fuzzed');
  good = await fuzz({
    document: resolve(import.meta.dirname, '../../../docs/wire/db-broker.openapi.generated.json'),
    url: stage.broker.url,
    credentials: {
      'the provisioner': stage.mounts.provisioner,
      'a Capsule': capsule.token,
      'a wrong token': newToken('dbp').reveal(),
      'no token': undefined,
    },
    there: { capsule_id: ['fuzzed'], app_id: ['one', 'two'] },
    log: stage.broker.log,
  });
} finally {
  await stage.close();
}
process.exitCode = good ? 0 : 1;
