import { newToken } from '@space/broker-kit';
import { type OwnStore, startOwnStore } from '../../brokers/objectstore/byok/credentials/testing/byok.ts';
import { openFixture } from '../../brokers/objectstore/testing/fixture.ts';
import { startEnvironment, type TestEnvironment } from './environment.ts';
import { accountOf, untilInForce } from './in-force.ts';

/** The same with a real object-storage broker behind it, and a real S3 server that a Capsule may bring keys to. */
export interface WithStore {
  readonly environment: TestEnvironment;
  readonly store: OwnStore;
  readonly brokerUrl: string;
  /** Creates the Capsule's principal for the broker, as the operator would, and returns it. */
  principal(capsule: string): Promise<string>;
  close(): Promise<void>;
}

export async function startWithStore(settings: Readonly<Record<string, string>> = {}): Promise<WithStore> {
  await using opened = new AsyncDisposableStack();
  const store = await startOwnStore();
  opened.defer(() => store.remove());
  const fixture = await openFixture({ environment: store.environment });
  opened.defer(() => fixture.close());
  const environment = await startEnvironment({ OBJECT_STORE_URL: fixture.broker.url, ...settings });
  opened.defer(() => environment.close());
  const whole = opened.move();
  const readable: string[] = [];
  return {
    environment,
    store,
    brokerUrl: fixture.broker.url,
    async principal(capsule) {
      const principal = newToken('osp').reveal();
      const { status } = await fixture.broker.provisioner.provision(capsule, principal);
      if (status !== 200) throw new Error(`the broker answered ${status}`);
      const name = `capsule-${capsule}-objectstore`;
      await environment.policyServer.create('/api/v1/namespaces/home-system/secrets', {
        metadata: { name },
        data: { principal: Buffer.from(principal).toString('base64') },
      });
      readable.push(name);
      const rules = (resourceNames: readonly string[]) => [
        { apiGroups: [''], resources: ['secrets'], resourceNames, verbs: ['get'] },
      ];
      await environment.policyServer.server.client.call({
        method: 'PATCH',
        path: '/apis/rbac.authorization.k8s.io/v1/namespaces/home-system/roles/home-console-principals',
        contentType: 'application/merge-patch+json',
        body: { rules: rules(readable) },
      });
      const user = accountOf('home-console', 'home-system');
      await untilInForce(environment.policyServer, { user }, rules([name]), 'home-system');
      return principal;
    },
    close: () => whole.disposeAsync(),
  };
}

/** The fields of a page's form for these values. */
export const filled = (fields: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(fields).map(([id, value]) => [`${id.includes('key') ? 'secret' : 'field'}-${id}`, value]),
  );
