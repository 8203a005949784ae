import { KubeConfig } from '@kubernetes/client-node';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiServer, startApiServer } from '../testing/api-server.ts';
import { identify } from './identity.ts';
import { apiClient } from './runtime/client.ts';
import { systemClock } from './runtime/clock.ts';
import { connect } from './runtime/connection.ts';

const NEVER = new AbortController().signal;
const ACCOUNTS = '/api/v1/namespaces/default/serviceaccounts';

let server: ApiServer;
beforeAll(async () => {
  server = await startApiServer();
});
afterAll(() => server?.stop());

test('a ServiceAccount finds its own name, and its object as the owner of what it creates', async () => {
  const { metadata } = await server.client.call<{ metadata: { uid: string } }>({
    method: 'POST',
    path: ACCOUNTS,
    body: { metadata: { name: 'operator' } },
  });
  const { status } = await server.client.call<{ status: { token: string } }>({
    method: 'POST',
    path: `${ACCOUNTS}/operator/token`,
    body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} },
  });
  const kubeConfig = new KubeConfig();
  const cluster = { name: 'test', server: server.url, skipTLSVerify: true };
  kubeConfig.loadFromClusterAndUser(cluster, { name: 'operator', token: status.token });
  const connection = connect(kubeConfig);
  const { uid } = metadata;
  expect(await identify(apiClient(connection), systemClock, NEVER)).toEqual({
    identity: { kind: 'ServiceAccount', name: 'operator', namespace: 'default' },
    owner: { apiVersion: 'v1', kind: 'ServiceAccount', name: 'operator', uid },
  });
  await connection.close();
});

test('any other user owns nothing', async () => {
  expect(await identify(server.client, systemClock, NEVER)).toEqual({
    identity: { kind: 'User', name: 'admin' },
  });
});
