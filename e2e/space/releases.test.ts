/**
 * Several Spaces, each a Helm release, on one real API server: which objects belong to one, and which to no release.
 */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ApiServer, startApiServer } from '../../testing/api-server.ts';
import { eventually } from '../../testing/eventually.ts';
import { findTool } from '../cluster/tools.ts';
import { CHART, SOME_IMAGES } from './chart.ts';
import { type Finished, finish } from './kube.ts';
import type { KubeObject } from './kube-object.ts';

const CLASS = '/apis/node.k8s.io/v1/runtimeclasses';
const DEFINITIONS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
/** Every kind in the chart that has no namespace. */
const CLUSTER_WIDE = [
  '/api/v1/namespaces',
  '/apis/rbac.authorization.k8s.io/v1/clusterroles',
  '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings',
  '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies',
  '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings',
];

let directory: string;
let helmProgram: string;
let server: ApiServer;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'space-releases-'));
  helmProgram = await findTool('helm', directory);
  server = await startApiServer();
  await writeFile(join(directory, 'kubeconfig'), server.kubeconfig, { mode: 0o600 });
  for (const name of ['home', 'cabin']) await namespace(name, { 'platform.space/space': name });
  for (const name of ['home', 'cabin']) must(await install(name, name));
});
afterAll(async () => {
  await server?.stop();
  await rm(directory, { recursive: true, force: true });
});

const namespace = (name: string, labels: object = {}) =>
  server.client.call({ method: 'POST', path: '/api/v1/namespaces', body: { metadata: { name, labels } } });
const helm = (place: string, ...args: readonly string[]) =>
  finish(helmProgram, [...args, '--namespace', place, '--kubeconfig', join(directory, 'kubeconfig')]);
const install = (release: string, place: string, ...args: readonly string[]) =>
  helm(place, 'install', release, CHART, ...SOME_IMAGES, ...args);
/** No controller runs the Jobs of hooks here. */
const upgrade = (release: string, place: string, ...args: readonly string[]) =>
  helm(place, 'upgrade', release, CHART, '--no-hooks', ...SOME_IMAGES, ...args);

function must({ code, stderr }: Finished): void {
  if (code !== 0) throw new Error(stderr);
}

async function list(path: string): Promise<readonly KubeObject[]> {
  const { items } = await server.client.call<{ items: KubeObject[] }>({ method: 'GET', path });
  return items;
}

/** Objects without a namespace that Helm created, by the release that owns them, with their present version. */
async function ownedBy(release: string): Promise<ReadonlyMap<string, string>> {
  const all = await Promise.all(
    CLUSTER_WIDE.map(async (path) =>
      (await list(path))
        .filter(({ metadata }) => metadata.annotations?.['meta.helm.sh/release-name'] === release)
        .map(({ metadata }) => [`${path}/${metadata.name}`, JSON.stringify(metadata)] as const),
    ),
  );
  return new Map(all.flat());
}

it('share no object: objects without a namespace are named after their Space', async () => {
  const [home, cabin] = [await ownedBy('home'), await ownedBy('cabin')];
  expect(home.size).toBeGreaterThan(15);
  expect([...cabin.keys()]).toEqual([...home.keys()].map((path) => path.replace('/home-', '/cabin-')));
});

it('share two definitions, which belong to no release and change with none', async () => {
  const found = await list(DEFINITIONS);
  expect(found.map(({ metadata }) => metadata.name)).toEqual([
    'assistants.platform.space',
    'capsules.platform.space',
  ]);
  for (const { metadata } of found) {
    expect(metadata.annotations ?? {}).not.toHaveProperty(['meta.helm.sh/release-name']);
    // It was written once, by the release that found none.
    expect(metadata.generation).toBe(1);
  }
});

it.each([
  ['another’s own namespace', 'den', 'home', 'the namespace home belongs to the Space home'],
  [
    'the namespace of another’s services',
    'den',
    'home-services',
    'the namespace home-services belongs to the Space home',
  ],
  [
    'the namespace of another’s operator',
    'den',
    'home-system',
    'the namespace home-system belongs to the Space home',
  ],
  ['the name of another', 'home', 'elsewhere', 'cannot be imported into the current release'],
])('a release in %s is refused before anything is created', async (_, release, place, reason) => {
  if (place === 'elsewhere') await namespace(place);
  const before = await Promise.all(['home', 'cabin', 'den'].map(ownedBy));
  const refused = await install(release, place);
  expect(refused.code).not.toBe(0);
  expect(refused.stderr).toContain(reason);
  expect(await Promise.all(['home', 'cabin', 'den'].map(ownedBy))).toEqual(before);
});

it('a namespace without its label still belongs to another Space, once its Capsules can be in it', async () => {
  await namespace('plain');
  must(await install('hut', 'plain'));
  const refused = await install('den', 'plain');
  expect(refused.stderr).toContain('the namespace plain belongs to the Space hut');
  must(await upgrade('hut', 'plain'));
});

it('what Helm will do next is written by nobody who only enters stored inputs', async () => {
  const rbac = '/apis/rbac.authorization.k8s.io/v1/namespaces/home/rolebindings';
  const post = <T>(path: string, body: object) => server.client.call<T>({ method: 'POST', path, body });
  const metadata = { name: 'insider' };
  await post('/api/v1/namespaces/home/serviceaccounts', { metadata });
  await post(rbac, {
    metadata,
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'home-space-inputs' },
    subjects: [{ kind: 'ServiceAccount', name: 'insider', namespace: 'home' }],
  });
  const { status } = await post<{ status: { token: string } }>(
    '/api/v1/namespaces/home/serviceaccounts/insider/token',
    { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} },
  );
  const insider = server.clientOf(status.token);
  const secrets = '/api/v1/namespaces/home/secrets';
  await eventually(
    () =>
      insider.call({ method: 'POST', path: secrets, body: { metadata: { name: 'bank' } } }).then(() => true),
    { what: 'a stored input is entered' },
  );
  const path = `${secrets}/sh.helm.release.v1.home.v1`;
  const { metadata: found, type, data } = await insider.call<KubeObject>({ method: 'GET', path });
  const refused = expect.objectContaining({
    status: 403,
    message: expect.stringContaining("Helm's records of"),
  });
  const contentType = 'application/merge-patch+json';
  const mine = { data: { release: Buffer.from('mine').toString('base64') } };
  await expect(insider.call({ method: 'PATCH', path, contentType, body: mine })).rejects.toEqual(refused);
  for (const name of ['sh.helm.release.v1.home.v9', 'of-any-name']) {
    const body = { metadata: { name, labels: { ...found.labels, version: '9' } }, type, data };
    await expect(insider.call({ method: 'POST', path: secrets, body })).rejects.toEqual(refused);
  }
  must(await upgrade('home', 'home'));
  must(await helm('home', 'rollback', 'home', '1', '--no-hooks'));
});

it.each(['postgres', 's3'])(
  'another size for the volume of %s is refused before anything changes',
  async (part) => {
    const at = '/apis/apps/v1/namespaces';
    const operator = () =>
      server.client.call<KubeObject>({ method: 'GET', path: `${at}/home-system/deployments/home-operator` });
    const before = await operator();
    const size = `${part}.storage.size`;
    const refused = await upgrade('home', 'home', '--set', `${size}=41Gi`, '--set', 'operator.replicas=3');
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain(`${size} is 41Gi, but the volume was created with `);
    expect(refused.stderr).toContain('docs/postgres.md, "A larger volume"');
    expect((await operator())['spec']).toEqual(before['spec']);
    // The same size in another unit is not another size.
    must(await upgrade('home', 'home', '--set', `${size}=${5 * 1024}Mi`));
    // The steps of the documentation work: the claim is enlarged, and the StatefulSet created again.
    const forget = () =>
      server.client.call({ method: 'DELETE', path: `${at}/home-services/statefulsets/${part}` });
    await forget();
    must(await upgrade('home', 'home', '--set', `${size}=41Gi`));
    await forget();
    must(await upgrade('home', 'home'));
  },
);

it.each(['postgres', 's3'])(
  'another class for the volume of %s is refused before anything changes',
  async (part) => {
    const path = '/apis/apps/v1/namespaces/home-system/deployments/home-operator';
    const before = await server.client.call<KubeObject>({ method: 'GET', path });
    const fast = ['--set', `${part}.storage.className=fast`, '--set', 'operator.replicas=3'];
    const refused = await upgrade('home', 'home', ...fast);
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain(
      `${part}.storage.className is "fast", but the volume was created with ""`,
    );
    const after = await server.client.call<KubeObject>({ method: 'GET', path });
    expect(after['spec']).toEqual(before['spec']);
  },
);

it('the RuntimeClass is created by the first release that is told to, and stays when that one is uninstalled', async () => {
  for (const name of ['first', 'second']) {
    await namespace(name);
    must(await install(name, name, '--set', 'sandbox.createRuntimeClass=true'));
  }
  const made = async () => (await list(CLASS)).map(({ metadata }) => [metadata.name, metadata.uid]);
  const before = await made();
  expect(before).toHaveLength(1);
  must(await upgrade('first', 'first', '--reuse-values'));
  must(await helm('first', 'uninstall', 'first', '--no-hooks'));
  must(await upgrade('second', 'second', '--reuse-values'));
  expect(await made()).toEqual(before);
});

it('an uninstalled release removes what is its own, and nothing of another or of all', async () => {
  const [home, definitions] = [await ownedBy('home'), await list(DEFINITIONS)];
  must(await helm('cabin', 'uninstall', 'cabin', '--no-hooks'));
  // These contain its data and principals, and only an administrator deletes them.
  expect([...(await ownedBy('cabin')).keys()]).toEqual([
    '/api/v1/namespaces/cabin-services',
    '/api/v1/namespaces/cabin-system',
  ]);
  expect(await ownedBy('home')).toEqual(home);
  expect(await list(DEFINITIONS)).toEqual(definitions);
  must(await install('cabin', 'cabin'));
  expect(await ownedBy('home')).toEqual(home);
});
