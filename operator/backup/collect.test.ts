import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ApiServer, startApiServer } from '../../testing/api-server.ts';
import { ASSISTANT, CAPSULE, SECRET } from '../kinds.ts';
import { pathOf, type Resource } from '../runtime/kube-object.ts';
import { manifest } from '../testing/manifest.ts';
import { prepareCluster, readCrds } from '../testing/prepare.ts';
import { collect, type SavedObject } from './collect.ts';

const OPTIONS = {
  space: 'home',
  releaseNamespace: 'home',
  systemNamespace: 'home-system',
  servicesNamespace: 'home-services',
  recipient: 'age1',
  file: '/nowhere',
  version: '0.2.0',
  databaseHosts: { main: 'postgres' },
  schemas: { database: 1, objectStore: 1 },
};
/** More than the API server gives at once. */
const MANY = 130;

let server: ApiServer;
let found: readonly SavedObject[];

const make = (resource: Resource, namespace: string, body: object) =>
  server.client.call({ method: 'POST', path: pathOf(resource, namespace), body });
const secret = (namespace: string, name: string, type = 'Opaque', labels = {}) =>
  make(SECRET, namespace, { metadata: { name, labels }, type, data: { value: btoa(name) } });

beforeAll(async () => {
  server = await startApiServer();
  await prepareCluster(server, readCrds());
  for (const name of ['home', 'home-system', 'home-services', 'else'])
    await server.client.call({ method: 'POST', path: '/api/v1/namespaces', body: { metadata: { name } } });
  await secret('home-services', 'db-admin');
  await secret('home-services', 'revision', 'helm.sh/release.v1');
  await secret('home-system', 'capsule-household-database', 'Opaque', { 'platform.space/space': 'home' });
  for (let at = 0; at < MANY; at += 1) await secret('home-system', `egress-household.app-${at}`);
  await secret('home', 'bank', 'platform.space/stored-input', { 'platform.space/capsule': 'household' });
  await secret('home', 'of-somebody');
  await secret('else', 'elsewhere', 'platform.space/stored-input');
  const annotations = { 'platform.space/approved-by': 'somebody', note: 'kept' };
  await make(CAPSULE, 'home', {
    apiVersion: 'platform.space/v1',
    kind: 'Capsule',
    metadata: { name: 'household', annotations, finalizers: ['platform.space/capsule'] },
    spec: { quota: { database: '1Gi' } },
  });
  const assistant = (name: string, finalizers: readonly string[] = []) =>
    make(ASSISTANT, 'home', {
      apiVersion: 'platform.space/v1',
      kind: 'Assistant',
      metadata: { name, finalizers },
      spec: {
        capsule: 'household',
        manifest: manifest(name),
        image: `registry.test/a@sha256:${'0'.repeat(64)}`,
      },
    });
  await assistant('ledger');
  await assistant('going', ['platform.space/assistant']);
  await server.client.call({ method: 'DELETE', path: pathOf(ASSISTANT, 'home', 'going'), body: {} });
  found = await collect(server.client, OPTIONS);
});
afterAll(() => server?.stop());

const named = (kind: string) =>
  found.filter((one) => one.kind === kind).map(({ metadata }) => `${metadata.namespace}/${metadata.name}`);

it('collects all keys and principals of the Space from any number of pages, and values of stored inputs', () => {
  expect(named('Secret')).toHaveLength(MANY + 3);
  expect(named('Secret')).toEqual(
    expect.arrayContaining([
      'home-services/db-admin',
      'home-system/capsule-household-database',
      `home-system/egress-household.app-${MANY - 1}`,
      'home/bank',
    ]),
  );
});

it('collects nothing of Helm, of other people or of other Spaces', () => {
  for (const name of ['home-services/revision', 'home/of-somebody', 'else/elsewhere'])
    expect(named('Secret')).not.toContain(name);
});

it('collects Capsules and Assistants in a form that can be applied, and none in deletion', () => {
  expect(named('Capsule')).toEqual(['home/household']);
  expect(named('Assistant')).toEqual(['home/ledger']);
  const capsule = found.find(({ kind }) => kind === 'Capsule');
  expect(capsule).toEqual({
    apiVersion: 'platform.space/v1',
    kind: 'Capsule',
    metadata: { name: 'household', namespace: 'home', annotations: { note: 'kept' } },
    spec: expect.objectContaining({ quota: expect.objectContaining({ database: '1Gi' }) }),
  });
});

it('sorts the objects so that each comes after those that it needs', () => {
  const kinds = [...new Set(found.map(({ kind }) => kind))];
  expect(kinds).toEqual(['Secret', 'Capsule', 'Assistant']);
  expect(found.find(({ metadata }) => metadata.name === 'bank')).toMatchObject({
    type: 'platform.space/stored-input',
    metadata: { labels: { 'platform.space/capsule': 'household' } },
    data: { value: btoa('bank') },
  });
});
