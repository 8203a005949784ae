import { credentialsOf, startOwnStore } from '../../brokers/objectstore/byok/credentials/testing/byok.ts';
import { checkRevocation } from '../../brokers/objectstore/byok/custody/testing/revocation.ts';
import { openFixture } from '../../brokers/objectstore/testing/fixture.ts';
import type { SoakOptions, SoakReport } from './soak.ts';

/** Sends requests to two replicas while a Capsule's credentials are rotated, selected and deleted: none may use the old ones. */
export async function run({ quick }: SoakOptions): Promise<SoakReport> {
  const wanted = quick ? 500 : 10_000;
  const store = await startOwnStore();
  const { environment } = store;
  const fixture = await openFixture({ environment });
  try {
    const replica = await fixture.replica({ environment });
    const own = credentialsOf(await fixture.broker.capsule('bench'), 'bench');
    const replicas = [fixture.broker, replica].map(({ context }) => context.custody);
    const { requests, stale, changes } = await checkRevocation({
      ...{ capsule: 'bench', own, replicas, wanted },
      fields: store.fields(),
    });
    await replica.stop();
    return {
      passed: stale === 0,
      title: 'Custody: revocation over two replicas, real PostgreSQL and S3 servers',
      rows: [{ requests, stale, ...changes }],
      figures: { requests, stale, ...changes },
    };
  } finally {
    await fixture.close();
    await store.remove();
  }
}
