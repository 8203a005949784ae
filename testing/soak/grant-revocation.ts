import { openByokFixture } from '../../brokers/objectstore/byok/grants/testing/byok-fixture.ts';
import { checkGrantRevocation } from '../../brokers/objectstore/byok/grants/testing/revocation.ts';
import type { SoakOptions, SoakReport } from './soak.ts';

/** Requests objects at two replicas while a Capsule's selection changes: none may be served with the former selection. */
export async function run({ quick }: SoakOptions): Promise<SoakReport> {
  const fixture = await openByokFixture();
  try {
    const replica = await fixture.replica({ environment: fixture.environment });
    const wanted = quick ? 200 : 10_000;
    const { changes, ...counts } = await checkGrantRevocation(fixture, {
      replicas: [fixture.broker, replica],
      wanted,
    });
    await replica.stop();
    return {
      passed: counts.stale === 0,
      title: 'Grants: revocation in the data plane over two replicas, real PostgreSQL and two S3 servers',
      rows: [{ ...counts, ...changes }],
      figures: { ...counts, ...changes },
    };
  } finally {
    await fixture.close();
  }
}
