import { describe, expect, test } from 'vitest';
import { eventually } from '../testing/eventually.ts';
import * as kinds from './kinds.ts';
import { pathOf } from './runtime/kube-object.ts';
import { PROBE } from './sandbox/probe.ts';
import { eachFixture } from './testing/fixture.ts';
import type { TestSpace } from './testing/space.ts';
import type { TestEnvironment } from './testing/test-environment.ts';

/** Images of Assistants and of the attester, from registries that ask for credentials. */

const { CAPSULE, DEPLOYMENT, POD, SECRET } = kinds;
const DOCKER = 'kubernetes.io/dockerconfigjson';
let environment: TestEnvironment;
let space: TestSpace;
let home: string;

eachFixture((fixture) => {
  ({ environment, space, home } = fixture);
});

const config = (registry: string, auth: string) => JSON.stringify({ auths: { [registry]: { auth } } });
const source = (name: string, text: string, type = DOCKER, key = '.dockerconfigjson') =>
  environment.server.client.call({
    method: 'POST',
    path: pathOf(SECRET, space.names.systemNamespace),
    body: { metadata: { name }, type, stringData: { [key]: text } },
  });
const copy = async () => {
  const secret = await space.get<kinds.SecretObject>(SECRET, 'image-pull', space.namespaceOf(home));
  const data = secret?.data?.['.dockerconfigjson'];
  return data && { type: secret.type, ...JSON.parse(Buffer.from(data, 'base64').toString()) };
};
let touches = 0;
const touch = () => {
  touches += 1;
  return space.patch(CAPSULE, home, { spec: { displayName: `Touched ${touches}` } });
};
const pullsOf = (pod: kinds.Deployment['spec'] | undefined) => pod?.template.spec?.imagePullSecrets;

describe('credentials of registries', () => {
  test('are where the kubelet reads them, follow their sources and are removed with them', async () => {
    await source('one', config('registry.one.org', 'b25l'));
    await source('two', config('registry.two.org', 'dHdv'));
    await space.start({ pullSecrets: ['one', 'two', 'missing'] });
    const namespace = await space.settled();
    const [one, two] = [{ auth: 'b25l' }, { auth: 'dHdv' }];
    expect(await copy()).toEqual({
      type: DOCKER,
      auths: { 'registry.one.org': one, 'registry.two.org': two },
    });
    const deployment = await space.get<kinds.Deployment>(DEPLOYMENT, 'ledger', namespace);
    expect(pullsOf(deployment?.spec)).toEqual([{ name: 'image-pull' }]);
    const probes = (await space.list<kinds.Pod>(POD)).filter(
      ({ metadata }) => metadata.labels?.['platform.space/component'] === PROBE,
    );
    expect(probes.length).toBeGreaterThan(0);
    for (const { spec } of probes)
      expect(spec).toMatchObject({
        imagePullSecrets: [{ name: 'one' }, { name: 'two' }, { name: 'missing' }],
      });

    const other = Buffer.from(config('registry.one.org', 'bmV3')).toString('base64');
    await space.patch(SECRET, 'one', { data: { '.dockerconfigjson': other } });
    await space.delete(SECRET, 'two');
    await touch();
    const changed = { type: DOCKER, auths: { 'registry.one.org': { auth: 'bmV3' } } };
    await eventually(async () => JSON.stringify(await copy()) === JSON.stringify(changed), {
      what: 'the copy follows',
    });

    await space.delete(SECRET, 'one');
    await touch();
    await eventually(async () => (await copy()) === undefined, { what: 'the copy is gone' });
    const told = async () => (await space.events(home)).some(({ reason }) => reason === 'PullSecretsRemoved');
    await eventually(told, { what: 'the removal is told' });
    expect(JSON.stringify(space.logs)).not.toContain('b25l');
    await space.removed(CAPSULE, home);
  });

  test('are removed once no Secret is named any more, as is whatever was in their place', async () => {
    await source('one', config('registry.one.org', 'b25l'));
    await space.start({ pullSecrets: ['one'] });
    const namespace = await space.settled();
    await space.stop();
    await space.delete(SECRET, 'image-pull', namespace);
    const metadata = { name: 'image-pull' };
    const body = { metadata, type: 'Opaque', stringData: { '.dockerconfigjson': 'mine' } };
    await environment.server.client.call({ method: 'POST', path: pathOf(SECRET, namespace), body });
    await space.start({ pullSecrets: ['one'] });
    const told = { type: DOCKER, auths: { 'registry.one.org': { auth: 'b25l' } } };
    await eventually(async () => JSON.stringify(await copy()) === JSON.stringify(told), {
      what: 'ours again',
    });
    await space.stop();
    await space.start();
    await eventually(async () => (await copy()) === undefined, { what: 'the copy is gone' });
    const without = async () => {
      const deployment = await space.get<kinds.Deployment>(DEPLOYMENT, 'ledger', namespace);
      return deployment !== undefined && pullsOf(deployment.spec) === undefined;
    };
    await eventually(without, { what: 'no pod asks for them' });
    await space.removed(CAPSULE, home);
  });

  test('are removed also where a Capsule is not Ready', async () => {
    await source('one', config('registry.one.org', 'b25l'));
    await space.start({ pullSecrets: ['one'] });
    await space.settled();
    expect(await copy()).toBeDefined();
    await space.delete(kinds.RUNTIME_CLASS, space.names.runtimeClass);
    await space.becomes(CAPSULE, home, 'Ready', 'False RuntimeClassNotFound');
    await space.stop();
    await space.start();
    await eventually(async () => (await copy()) === undefined, { what: 'the copy is gone' });
    await space.removed(CAPSULE, home);
  });

  test('are copied only if they have the type of such credentials, and only from the operator’s namespace', async () => {
    await source('value', 'hunter2', 'Opaque', 'value');
    await source('looks', config('registry.one.org', 'b25l'), 'Opaque', '.dockerconfigjson');
    const metadata = { name: 'elsewhere' };
    const stringData = { '.dockerconfigjson': config('registry.one.org', 'b25l') };
    const body = { metadata, type: DOCKER, stringData };
    const path = pathOf(SECRET, space.names.namespace);
    await environment.server.client.call({ method: 'POST', path, body });
    await space.start({ pullSecrets: ['value', 'looks', 'elsewhere'] });
    await space.settled();
    expect(await copy()).toBeUndefined();
    await space.removed(CAPSULE, home);
  });
});
