import { describe, expect, test } from 'vitest';
import { eventually } from '../testing/eventually.ts';
import { EGRESS_COMPONENT } from './egress/replicas.ts';
import * as kinds from './kinds.ts';
import { ANNOTATION, capsuleNamespace, LABEL } from './names.ts';
import { type KubeObject, pathOf, type Resource } from './runtime/kube-object.ts';
import { ATTESTER, NOT_IN_SANDBOX } from './sandbox/attester.ts';
import { PROBE } from './sandbox/probe.ts';
import { isInPlace } from './stores.ts';
import { eachFixture } from './testing/fixture.ts';
import { IMAGE, type TestSpace } from './testing/space.ts';
import type { TestEnvironment } from './testing/test-environment.ts';

/** What somebody has in a namespace of their own, and marks as if it were the Space's. */

const { ASSISTANT, CONFIG_MAP, DEPLOYMENT, NODE, POD, SERVICE } = kinds;
let environment: TestEnvironment;
let space: TestSpace;
let elsewhere: string;

eachFixture(async (fixture) => {
  ({ environment, space } = fixture);
  elsewhere = `${space.names.space}-elsewhere`;
  const body = { metadata: { name: elsewhere } };
  await environment.server.client.call({ method: 'POST', path: pathOf(kinds.NAMESPACE), body });
  await space.start();
});

interface Marks {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

const pod = {
  containers: [{ name: 'own', image: IMAGE }],
  initContainers: [{ name: ATTESTER, image: IMAGE }],
};

function make(resource: Resource, { labels, annotations }: Marks, more: object): Promise<KubeObject> {
  const name = `own-${resource.plural}`;
  const body = {
    metadata: { name, labels: { [LABEL.space]: space.names.space, ...labels }, annotations },
    ...more,
  };
  return environment.server.client.call({ method: 'POST', path: pathOf(resource, elsewhere), body });
}

async function isThere(resource: Resource): Promise<boolean> {
  const found = await space.get(resource, `own-${resource.plural}`, elsewhere);
  return found !== undefined && found.metadata.deletionTimestamp === undefined;
}

describe('an object with the labels of a Space in a namespace of somebody else', () => {
  test('does not prevent the deletion of an Assistant, and is not changed', async () => {
    await space.settled();
    const uid = (await space.get(ASSISTANT, 'ledger'))?.metadata.uid ?? '';
    const marks = {
      labels: { [LABEL.capsule]: space.home, [LABEL.assistant]: 'ledger' },
      annotations: { [ANNOTATION.owner]: uid },
    };
    const labels = { [LABEL.space]: space.names.space, ...marks.labels, own: 'x' };
    const template = { metadata: { ...marks, labels }, spec: pod };
    await make(DEPLOYMENT, marks, { spec: { selector: { matchLabels: { own: 'x' } }, template } });
    await make(SERVICE, marks, { spec: { ports: [{ port: 80 }] } });
    await make(CONFIG_MAP, marks, { data: { own: 'x' } });
    const pods = () => space.list(POD, elsewhere);
    await eventually(async () => (await pods()).length === 1, {
      what: 'the Deployment elsewhere has its pod',
    });
    await space.removed(ASSISTANT, 'ledger');
    expect(await Promise.all([DEPLOYMENT, SERVICE, CONFIG_MAP].map(isThere))).toEqual([true, true, true]);
    expect((await pods()).length).toBe(1);
  });

  test('does not count as a probe of a node, neither for nor against it, and is not changed', async () => {
    await space.settled();
    const [node] = await space.list<kinds.Node>(NODE);
    const name = node?.metadata.name ?? '';
    const marks = { labels: { [LABEL.component]: PROBE }, annotations: { [ANNOTATION.node]: name } };
    await make(POD, marks, { spec: { ...pod, nodeName: name } });
    const terminated = { exitCode: NOT_IN_SANDBOX, reason: 'Error' };
    const status = {
      name: ATTESTER,
      image: '',
      imageID: '',
      ready: false,
      restartCount: 0,
      state: { terminated },
    };
    await environment.server.client.call({
      method: 'PATCH',
      path: pathOf(POD, elsewhere, 'own-pods', 'status'),
      contentType: 'application/merge-patch+json',
      body: { status: { phase: 'Failed', initContainerStatuses: [status] } },
    });
    await space.assistant('second', { capsule: space.home });
    await space.becomes(ASSISTANT, 'second', 'Ready', 'True Ready');
    expect(await isThere(POD)).toBe(true);
    const probes = (await space.list(POD)).filter(
      ({ metadata }) => metadata.labels?.[LABEL.component] === PROBE,
    );
    expect(probes).not.toEqual([]);
  });
});

describe('an object of a Space', () => {
  const at = (namespace: string | undefined, labels: Record<string, string> = {}) =>
    isInPlace(space.names, {
      metadata: { name: 'a', ...(namespace === undefined ? {} : { namespace }), labels },
    });

  test('is only in the namespaces of its programs, or in that of the Capsule in its label', () => {
    const { names } = space;
    const mine = { [LABEL.capsule]: 'a' };
    expect(at(undefined)).toBe(true);
    expect(at(names.systemNamespace)).toBe(true);
    expect(at(names.servicesNamespace, { [LABEL.component]: EGRESS_COMPONENT })).toBe(true);
    expect(at(capsuleNamespace(names.space, 'a'), mine)).toBe(true);
    expect(at(capsuleNamespace(names.space, 'b'), mine)).toBe(false);
    expect(at(capsuleNamespace(names.space, 'a'))).toBe(false);
    expect(at(names.namespace, mine)).toBe(false);
    expect(at('elsewhere', { [LABEL.component]: EGRESS_COMPONENT })).toBe(false);
  });
});
