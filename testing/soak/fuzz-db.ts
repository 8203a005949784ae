import { newToken } from '@space/broker-kit';
import { openFixture } from '../../brokers/db/testing/postgres.ts';
import { fuzz, fuzzReport, GENEROUS } from './fuzz/schemathesis.ts';
import type { SoakOptions, SoakReport } from './soak.ts';

/** Fuzzes the database broker by its OpenAPI document, with each of its credentials, with a wrong one and with none. */
export async function run({ examples }: SoakOptions): Promise<SoakReport> {
  const fixture = await openFixture({}, { environment: GENEROUS });
  try {
    const capsule = await fixture.broker.capsule('fuzzed');
    const control = await fuzz({
      document: 'db-broker',
      url: fixture.broker.url,
      credentials: {
        'the provisioner': fixture.mounts.provisioner,
        'a Capsule': capsule.token,
        'a wrong token': newToken('dbp').reveal(),
        'no token': undefined,
      },
      there: { capsule_id: ['fuzzed'], app_id: ['one', 'two'] },
      log: fixture.broker.log,
      examples,
    });
    return fuzzReport('The database broker and its OpenAPI document', [control]);
  } finally {
    await fixture.close();
  }
}
