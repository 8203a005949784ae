import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Secret } from '@space/contracts/secret';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { DRIVER_DIRECTORY } from '../brokers/objectstore/testing/broker.ts';
import { type Fixture, openFixtureOn } from '../brokers/objectstore/testing/fixture.ts';
import { eventually } from '../testing/eventually.ts';
import { type ObjectStoreBroker, objectStoreBroker } from './brokers/objects.ts';
import * as kinds from './kinds.ts';
import { objectPrincipalSecretName, principalSecretName } from './names.ts';
import type { ApiClient } from './runtime/client.ts';
import { ApiError } from './runtime/errors.ts';
import { pathOf, type Resource } from './runtime/kube-object.ts';
import { deny } from './testing/policies.ts';
import type { TestSpace } from './testing/space.ts';
import { openTestEnvironment, type TestEnvironment } from './testing/test-environment.ts';

/** The Role by which the console reads principals for the object store, and an account that is bound by it. */

const { CAPSULE, ROLE, ROLE_BINDING, SECRET } = kinds;
const NAME = 'console-principals';
const RBAC = 'rbac.authorization.k8s.io';
const ACCOUNT: Resource = { ...SECRET, plural: 'serviceaccounts', kind: 'ServiceAccount' };
/** Other Secrets in the operator's namespace. */
const OTHERS = [
  'db-provisioner',
  'objectstore-provisioner',
  'objectstore-grants',
  'console-session',
  'console-tls',
];

let environment: TestEnvironment;
let store: Fixture;
let objectStore: ObjectStoreBroker;
let space: TestSpace;
let home: string;
let system: string;
let asConsole: ApiClient;

beforeAll(async () => {
  environment = await openTestEnvironment();
  store = await openFixtureOn(environment.database.server);
  objectStore = objectStoreBroker({
    url: store.broker.url,
    driver: readFileSync(join(DRIVER_DIRECTORY, 'objectstore.json')),
    provisionerToken: async () => new Secret(store.mounts.provisioner),
  });
});
afterAll(async () => {
  await store?.close();
  await environment?.close();
});

beforeEach(async () => {
  space = await environment.space();
  home = space.home;
  system = space.names.systemNamespace;
  for (const name of OTHERS) await create(SECRET, { metadata: { name } });
  await create(ACCOUNT, { metadata: { name: 'console' } });
  await makeRole();
  await create(ROLE_BINDING, {
    metadata: { name: NAME },
    roleRef: { apiGroup: RBAC, kind: 'Role', name: NAME },
    subjects: [{ kind: 'ServiceAccount', name: 'console', namespace: system }],
  });
  const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} };
  const path = `${pathOf(ACCOUNT, system, 'console')}/token`;
  const { status } = await environment.server.client.call<{ status: { token: string } }>({
    method: 'POST',
    path,
    body,
  });
  asConsole = environment.server.clientOf(status.token);
  await start();
});
afterEach(() => space.close());

const start = (dieAfter?: number) =>
  space.start({ objectStore, consoleRole: NAME, ...(dieAfter === undefined ? {} : { dieAfter }) });
const create = (resource: Resource, body: object) =>
  environment.server.client.call({ method: 'POST', path: pathOf(resource, system), body });
/** As the chart does: without rules. */
const makeRole = () => create(ROLE, { metadata: { name: NAME, labels: { 'of-the': 'chart' } } });
const role = () => space.get<kinds.Role>(ROLE, NAME, system);
const named = async () => (await role())?.rules?.flatMap(({ resourceNames }) => resourceNames ?? []) ?? [];
const isNamed = async (capsule = home) => (await named()).includes(objectPrincipalSecretName(capsule));
const ready = (capsule = home) => space.becomes(CAPSULE, capsule, 'ObjectStoreReady', 'True Ready');

/** The status with which the API server answers the console. */
async function asked(name: string): Promise<number> {
  try {
    await asConsole.call({ method: 'GET', path: pathOf(SECRET, system, name) });
    return 200;
  } catch (error) {
    if (error instanceof ApiError) return error.status;
    throw error;
  }
}

describe('the Role of the console', () => {
  test('lets it read the principal of a Capsule that is ready, and no other Secret beside the operator', async () => {
    await space.capsule(home);
    await ready();
    expect(await isNamed()).toBe(true);
    await eventually(async () => (await asked(objectPrincipalSecretName(home))) === 200, {
      what: 'the console may read the principal',
    });
    const secrets = (await space.list(SECRET)).map(({ metadata }) => metadata.name);
    expect(secrets).toEqual(expect.arrayContaining([...OTHERS, principalSecretName(home)]));
    const refused = [...secrets, objectPrincipalSecretName('elsewhere'), ''].filter(
      (name) => name !== objectPrincipalSecretName(home),
    );
    for (const name of refused) expect([name, await asked(name)]).toEqual([name, 403]);
    expect((await role())?.metadata.labels).toEqual({ 'of-the': 'chart' });
  });

  test('has no rule before the first Capsule and after the last, since a rule without names would be for every Secret', async () => {
    expect((await role())?.rules ?? []).toEqual([]);
    await space.capsule(home);
    await ready();
    await space.removed(CAPSULE, home);
    await eventually(async () => (await named()).length === 0, { what: 'the Role names nothing' });
    expect((await role())?.rules ?? []).toEqual([]);
    for (const name of OTHERS) expect([name, await asked(name)]).toEqual([name, 403]);
  });

  test('is restored when somebody emptied, widened or recreated it, and Capsules stay Ready', async () => {
    await space.capsule(home);
    await ready();
    const all = [{ apiGroups: [''], resources: ['secrets'], verbs: ['get'] }];
    const settled = async () => (await named()).length === 1 && (await role())?.rules?.length === 1;
    for (const rules of [[], all]) {
      await space.patch(ROLE, NAME, { rules }, system);
      await eventually(settled, { what: 'the Role is as it was' });
    }
    await space.delete(ROLE, NAME, system);
    await makeRole();
    await eventually(settled, { what: 'the new Role is filled' });
    expect(await space.condition(CAPSULE, home, 'ObjectStoreReady')).toBe('True Ready');
  });

  test('names a Capsule before it says that its files are ready', async () => {
    const allow = await deny(environment.server.client, system, {
      group: RBAC,
      resource: 'roles',
      operations: ['UPDATE'],
      where: `request.namespace == "${system}"`,
      message: '"no Role is written"',
    });
    await space.capsule(home);
    await space.becomes(CAPSULE, home, 'DatabaseReady', 'True Ready');
    await space.becomes(CAPSULE, home, 'ObjectStoreReady', 'Unknown Waiting');
    await allow();
    await ready();
    expect(await isNamed()).toBe(true);
  });

  test('does not name the principal of an earlier Capsule', async () => {
    await create(SECRET, { metadata: { name: objectPrincipalSecretName(home) }, data: {} });
    await space.capsule(home);
    await space.becomes(CAPSULE, home, 'ObjectStoreReady', 'False PrincipalConflict');
    await eventually(async () => !(await isNamed()), { what: 'the Role does not name it' });
  });

  test('is written once for many Capsules, and not at all when none is created or deleted', async () => {
    const capsules = Array.from({ length: 12 }, (_, index) => `${home}-${index}`.replace(/-(\d+)$/, '-c$1'));
    await Promise.all(capsules.map((capsule) => space.capsule(capsule)));
    for (const capsule of capsules) await ready(capsule);
    const writes = () => space.run.acts.filter((act) => act.includes(`/roles/${NAME}`)).length;
    expect(writes()).toBeLessThan(capsules.length);
    const before = writes();
    await space.patch(CAPSULE, capsules[0]!, { spec: { displayName: 'Touched' } });
    const seen = async () => {
      const object = await space.get<kinds.Capsule>(CAPSULE, capsules[0]!);
      return object?.status?.observedGeneration === object?.metadata.generation;
    };
    await eventually(seen, { what: 'a look at the Capsule' });
    expect(writes()).toBe(before);
  });

  test('is complete after kill -9 at any step, and never behind the condition of a Capsule', async () => {
    await space.stop();
    let deaths = 0;
    for (let dieAfter = 1; dieAfter < 100; dieAfter += 1) {
      await start(dieAfter);
      if (dieAfter === 1) await space.capsule(home);
      const isReady = async () => (await space.condition(CAPSULE, home, 'ObjectStoreReady')) === 'True Ready';
      await eventually(async () => space.run.dead || (await isReady()), { what: 'the death or the end' });
      const { dead } = space.run;
      await space.stop();
      if (await isReady()) expect(await isNamed()).toBe(true);
      if (!dead) break;
      deaths += 1;
    }
    expect(deaths).toBeGreaterThan(2);
    expect(await named()).toEqual([objectPrincipalSecretName(home)]);
  });
});
