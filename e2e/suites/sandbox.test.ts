import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  assistant,
  capsule,
  conditionOf,
  deleteCapsules,
  getAssistant,
  gone,
  installed,
  kube,
  namespaceOf,
  podsOf,
  ready,
  runningPod,
  system,
  unique,
  untilCondition,
} from './support/space.ts';
import { until } from './support/until.ts';

const runtimeClass = (name: string, handler: string) => ({
  apiVersion: 'node.k8s.io/v1',
  kind: 'RuntimeClass',
  metadata: { name },
  handler,
});

/** A pod as the operator's Deployment would create it, but under another name, so that no controller manages it. */
async function copyOfPod(namespace: string, id: string, name: string) {
  const deployment = await kube.get('deployment', id, namespace);
  if (deployment === undefined) throw new Error(`no Deployment ${id}`);
  const { spec } = deployment.spec.template;
  return { apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace }, spec };
}

/**
 * Replaces the RuntimeClass of Assistants by one with another handler, since the handler of a class cannot be
 * changed.
 */
async function replaceClass(handler: string) {
  await kube.remove('runtimeclass', 'gvisor');
  await gone('runtimeclass', 'gvisor');
  await kube.apply(runtimeClass('gvisor', handler));
}

/** Runs a function while one policy of the chart is not bound, and binds it again. */
async function withoutPolicy(name: string, work: () => Promise<void>) {
  const binding = await kube.get('validatingadmissionpolicybinding', name);
  if (binding === undefined) throw new Error(`the policy ${name} is not bound`);
  const { apiVersion, kind, metadata, spec } = binding;
  await kube.remove('validatingadmissionpolicybinding', name);
  try {
    await work();
  } finally {
    await kube.apply({ apiVersion, kind, metadata: { name, labels: metadata.labels }, spec });
  }
}

/** Waits until the attester has ended, and returns its state and that of the container behind it. */
const attesterEnded = (namespace: string, pod: string) =>
  until('the attester to end', async () => {
    const { initContainerStatuses, containerStatuses } =
      (await kube.get('pod', pod, namespace))?.status ?? {};
    const attester = initContainerStatuses?.[0];
    const ended = attester?.state.terminated ?? attester?.lastState.terminated;
    return ended && { ended, tenant: containerStatuses?.[0] };
  });

const operatorEnv = async (...settings: string[]) => {
  const operator = (await kube.list('deployments', system, 'platform.space/component=operator'))[0];
  const target = `deployment/${operator?.metadata.name}`;
  const { code, stderr } = await kube.run(['set', 'env', '-n', system, target, ...settings]);
  if (code !== 0) throw new Error(stderr);
};

describe('the sandbox gate', () => {
  const home = unique('gate');
  let namespace: string;

  beforeAll(async () => {
    await kube.apply(capsule(home), assistant(home, 'early', {}, `${home}-early`));
    namespace = await namespaceOf(home);
    await ready('assistant', `${home}-early`);
  });

  afterAll(async () => {
    await kube.apply(runtimeClass('gvisor', 'runsc'));
    await deleteCapsules(home);
  });

  it('schedules nothing without the RuntimeClass, says what to do, and continues by itself when it is back', async () => {
    const early = await runningPod(namespace, 'early');
    await kube.remove('runtimeclass', 'gvisor');
    await untilCondition('capsule', home, 'SandboxReady', 'False', 'RuntimeClassNotFound');

    await kube.apply(assistant(home, 'late', {}, `${home}-late`));
    const refusal = await untilCondition(
      'assistant',
      `${home}-late`,
      'SandboxReady',
      'False',
      'RuntimeClassNotFound',
    );
    expect(refusal.message).toMatch(/RuntimeClass.*gvisor/);
    expect(conditionOf(await getAssistant(`${home}-late`), 'Ready')).toMatchObject({
      status: 'False',
      reason: 'RuntimeClassNotFound',
    });
    expect(await podsOf(namespace, 'late')).toEqual([]);
    expect(await kube.get('deployment', 'late', namespace)).toBeUndefined();
    expect((await runningPod(namespace, 'early')).metadata.uid).toBe(early.metadata.uid);

    await kube.apply(runtimeClass('gvisor', 'runsc'));
    await ready('assistant', `${home}-late`);
    expect((await runningPod(namespace, 'late')).spec.runtimeClassName).toBe('gvisor');
  });

  it('maintains the guardrails while it refuses', async () => {
    await kube.remove('runtimeclass', 'gvisor');
    await untilCondition('capsule', home, 'SandboxReady', 'False', 'RuntimeClassNotFound');
    const policies = await kube.list('networkpolicies', namespace);
    expect(policies).not.toEqual([]);
    // They are protected, so an administrator opens the namespace first.
    await kube.run(['annotate', 'namespace', namespace, 'platform.space/open=true']);
    for (const { metadata } of policies) {
      const args = ['delete', 'networkpolicy', metadata.name, '-n', namespace, '--wait=false'];
      await until('the policy to go', async () => (await kube.run(args)).code === 0);
    }
    await kube.run(['annotate', 'namespace', namespace, 'platform.space/open-']);
    const names = policies.map((policy) => policy.metadata.name).sort();
    await until('the network policies to be back', async () => {
      const now = (await kube.list('networkpolicies', namespace)).map((policy) => policy.metadata.name);
      return now.sort().join() === names.join();
    });
    await kube.apply(runtimeClass('gvisor', 'runsc'));
    await ready('capsule', home);
  });

  it('does not trust a class of the right name with another handler', async () => {
    await kube.remove('runtimeclass', 'gvisor');
    await gone('runtimeclass', 'gvisor');
    await kube.apply(runtimeClass('gvisor', 'runc'));
    const refusal = await untilCondition('capsule', home, 'SandboxReady', 'False', 'HandlerMismatch');
    expect(refusal.message).toMatch(/runsc/);
    await kube.remove('runtimeclass', 'gvisor');
    await gone('runtimeclass', 'gvisor');
    await kube.apply(runtimeClass('gvisor', 'runsc'));
    await ready('capsule', home);
  });

  it('admits no pod made by hand except one in the sandbox that proves it to its end', async () => {
    const whole = await copyOfPod(namespace, 'early', 'by-hand');
    const { initContainers: _, ...without } = whole.spec;
    const bare = await kube.tryApply({ ...whole, spec: without });
    expect(bare.code).not.toBe(0);
    expect(bare.stderr).toContain('first init container must be the attester');
    await kube.apply(whole);
    await until('the whole one to run', async () => {
      const pod = await kube.get('pod', 'by-hand', namespace);
      return pod?.status.phase === 'Running';
    });
    expect((await attesterEnded(namespace, 'by-hand')).ended).toMatchObject({ exitCode: 0 });
    await kube.remove('pod', 'by-hand', namespace);
    await gone('pod', 'by-hand', namespace);
  });

  it('never runs a pod under a class of the right name that leads to runc, not even one made by hand', async () => {
    const pod = await copyOfPod(namespace, 'early', 'by-hand');
    await replaceClass('runc');
    await untilCondition('capsule', home, 'SandboxReady', 'False', 'HandlerMismatch');
    const refused = await until('the policy to have seen the class', async () => {
      const { code, stderr } = await kube.tryApply(pod);
      return code !== 0 && stderr.includes('names handler') ? stderr : undefined;
    });
    expect(refused).toContain('names handler "runc", not "runsc"');
    expect(await kube.get('pod', 'by-hand', namespace)).toBeUndefined();
    await replaceClass('runsc');
    await ready('capsule', home);
  });

  it('starts nothing of a pod whose class was changed after it was admitted', async () => {
    const { spec, ...pod } = await copyOfPod(namespace, 'early', 'gated');
    await kube.apply({ ...pod, spec: { ...spec, schedulingGates: [{ name: 'test.space/later' }] } });
    try {
      await replaceClass('runc');
      const ungate = ['patch', 'pod', 'gated', '-n', namespace, '--type=merge', '-p'];
      const { code, stderr } = await kube.run([...ungate, '{"spec":{"schedulingGates":[]}}']);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      const found = await attesterEnded(namespace, 'gated');
      expect(found.ended).toMatchObject({
        exitCode: 1,
        message: expect.stringContaining('not in gVisor'),
      });
      expect(found.tenant).toMatchObject({ started: false, restartCount: 0, state: { waiting: {} } });
    } finally {
      await kube.remove('pod', 'gated', namespace);
      await gone('pod', 'gated', namespace);
      await replaceClass('runsc');
    }
    await ready('capsule', home);
  });

  it('starts nothing of a pod while its attester runs, and nothing once it has found the walls open', async () => {
    const { spec, metadata, ...rest } = await copyOfPod(namespace, 'early', 'doubted');
    // By this label the network policies let it reach PostgreSQL.
    const pod = { ...rest, metadata: { ...metadata, labels: { 'platform.space/assistant': 'early' } } };
    const [attester, ...others] = spec.initContainers;
    // It asks PostgreSQL, which answers, as what must be silent: for ten seconds, in which the kubelet looks often.
    const command = [attester.command[0], attester.command[2].replace('+', '-')];
    const initContainers = [{ ...attester, command }, ...others];
    await withoutPolicy(`${installed.space}-sandbox`, () =>
      withoutPolicy(`${installed.space}-sandbox-canary`, () =>
        until('the pod to be admitted', async () => {
          const { code } = await kube.tryApply({ ...pod, spec: { ...spec, initContainers } });
          return code === 0 || undefined;
        }).then(() => undefined),
      ),
    );
    try {
      const found = await until('the attester to have ended twice', async () => {
        const { initContainerStatuses, containerStatuses } =
          (await kube.get('pod', 'doubted', namespace))?.status ?? {};
        expect(containerStatuses?.[0] ?? { started: false }).toMatchObject({ started: false });
        return (
          initContainerStatuses?.[0]?.lastState.terminated && { initContainerStatuses, containerStatuses }
        );
      });
      expect(found.initContainerStatuses[0].lastState.terminated).toMatchObject({
        exitCode: 3,
        message: expect.stringContaining('reached: PostgreSQL'),
      });
      expect(found.containerStatuses[0]).toMatchObject({
        started: false,
        restartCount: 0,
        state: { waiting: { reason: 'PodInitializing' } },
      });
    } finally {
      await kube.remove('pod', 'doubted', namespace);
      await gone('pod', 'doubted', namespace);
    }
  });

  it('starts nothing of an Assistant outside even if admission is off, and continues by itself', async () => {
    const before = await runningPod(namespace, 'early');
    try {
      await withoutPolicy(`${installed.space}-sandbox`, async () => {
        await replaceClass('runc');
        await untilCondition('capsule', home, 'SandboxReady', 'False', 'HandlerMismatch');
        await kube.remove('pod', before.metadata.name, namespace);
        const said = await untilCondition(
          'assistant',
          `${home}-early`,
          'WorkloadReady',
          'False',
          'NotAttested',
        );
        expect(said.message).toContain('is not in the sandbox: not in gVisor');
        const outside = (await podsOf(namespace, 'early')).find(
          (pod) => pod.metadata.name !== before.metadata.name,
        );
        expect(outside?.status.containerStatuses[0]).toMatchObject({ started: false, restartCount: 0 });
      });
    } finally {
      await replaceClass('runsc');
    }
    await ready('assistant', `${home}-early`);
    const after = await runningPod(namespace, 'early');
    expect(after.status.initContainerStatuses[0]).toMatchObject({ state: { terminated: { exitCode: 0 } } });
  });

  it('has probed each node once, and keeps the result', async () => {
    const probes = await kube.list('pods', system, 'platform.space/component=sandbox-probe');
    const { items: nodes } = JSON.parse((await kube.run(['get', 'nodes', '-o', 'json'])).stdout);
    expect(probes.map(({ spec }) => spec.nodeName).sort()).toEqual(
      nodes.map(({ metadata }: { metadata: { name: string } }) => metadata.name).sort(),
    );
    for (const { status, metadata } of probes) {
      expect(status.phase).toBe('Succeeded');
      // The owner makes sure that they are deleted with the release.
      expect(metadata).toMatchObject({
        ownerReferences: [{ kind: 'Deployment', name: `${installed.space}-operator` }],
      });
    }
  });

  it('stays closed for a handler that no node reports, and for one that is reported and leads to runc', async () => {
    await kube.apply(runtimeClass('elsewhere', 'elsewhere'), runtimeClass('plain', 'runc'));
    try {
      await operatorEnv('SANDBOX_RUNTIME_CLASS=elsewhere', 'SANDBOX_HANDLER=elsewhere');
      await untilCondition('capsule', home, 'SandboxReady', 'False', 'NoNodeWithHandler');
      await kube.apply(assistant(home, 'nowhere', {}, `${home}-nowhere`));
      await untilCondition('assistant', `${home}-nowhere`, 'SandboxReady', 'False', 'NoNodeWithHandler');

      // The fence would not let the operator create a probe of another class than the chart's.
      await withoutPolicy(`${installed.space}-operator-fence`, async () => {
        await operatorEnv('SANDBOX_RUNTIME_CLASS=plain', 'SANDBOX_HANDLER=runc');
        const refusal = await untilCondition('capsule', home, 'SandboxReady', 'False', 'ProbeFailed');
        expect(refusal.message).toContain('found: not in gVisor');
      });
      expect(await podsOf(namespace, 'nowhere')).toEqual([]);
    } finally {
      await operatorEnv('SANDBOX_RUNTIME_CLASS=gvisor', 'SANDBOX_HANDLER=runsc');
      await kube.remove('runtimeclass', 'elsewhere');
      await kube.remove('runtimeclass', 'plain');
    }
    await ready('assistant', `${home}-nowhere`);
    expect((await runningPod(namespace, 'nowhere')).spec.runtimeClassName).toBe('gvisor');
  });
});
