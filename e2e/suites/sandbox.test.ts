import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  assistant,
  capsule,
  conditionOf,
  getAssistant,
  gone,
  installed,
  kube,
  namespaceOf,
  podsOf,
  ready,
  runningPod,
  told,
  unique,
} from './support/space.ts';

const runtimeClass = (name: string, handler: string) => ({
  apiVersion: 'node.k8s.io/v1',
  kind: 'RuntimeClass',
  metadata: { name },
  handler,
});

const operatorEnv = async (...settings: string[]) => {
  const operator = (
    await kube.list('deployments', installed.namespace, 'platform.space/component=operator')
  )[0];
  const target = `deployment/${operator?.metadata.name}`;
  const { code, stderr } = await kube.run(['set', 'env', '-n', installed.namespace, target, ...settings]);
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
    await kube.remove('capsule', home, installed.namespace);
    await gone('capsule', home, installed.namespace);
  });

  it('schedules nothing without the RuntimeClass, says what to do, and goes on by itself when it is back', async () => {
    const early = await runningPod(namespace, 'early');
    await kube.remove('runtimeclass', 'gvisor');
    await told('capsule', home, 'SandboxReady', 'False', 'RuntimeClassNotFound');

    await kube.apply(assistant(home, 'late', {}, `${home}-late`));
    const refusal = await told('assistant', `${home}-late`, 'SandboxReady', 'False', 'RuntimeClassNotFound');
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

  it('keeps the guardrails while it refuses', async () => {
    await kube.remove('runtimeclass', 'gvisor');
    await told('capsule', home, 'SandboxReady', 'False', 'RuntimeClassNotFound');
    const policies = await kube.list('networkpolicies', namespace);
    expect(policies).not.toEqual([]);
    for (const policy of policies) await kube.remove('networkpolicy', policy.metadata.name, namespace);
    const names = policies.map((policy) => policy.metadata.name).sort();
    await expect
      .poll(
        async () =>
          (await kube.list('networkpolicies', namespace)).map((policy) => policy.metadata.name).sort(),
        {
          timeout: 60_000,
        },
      )
      .toEqual(names);
    await kube.apply(runtimeClass('gvisor', 'runsc'));
    await ready('capsule', home);
  });

  it('does not trust a class of the right name with another handler', async () => {
    await kube.remove('runtimeclass', 'gvisor');
    await gone('runtimeclass', 'gvisor');
    await kube.apply(runtimeClass('gvisor', 'runc'));
    const refusal = await told('capsule', home, 'SandboxReady', 'False', 'HandlerMismatch');
    expect(refusal.message).toMatch(/runsc/);
    await kube.remove('runtimeclass', 'gvisor');
    await gone('runtimeclass', 'gvisor');
    await kube.apply(runtimeClass('gvisor', 'runsc'));
    await ready('capsule', home);
  });

  it('stays closed for a class whose handler no node reports', async () => {
    await kube.apply(runtimeClass('elsewhere', 'elsewhere'));
    await operatorEnv('SANDBOX_RUNTIME_CLASS=elsewhere', 'SANDBOX_HANDLER=elsewhere');
    try {
      await told('capsule', home, 'SandboxReady', 'False', 'NoNodeWithHandler');
      await kube.apply(assistant(home, 'nowhere', {}, `${home}-nowhere`));
      await told('assistant', `${home}-nowhere`, 'SandboxReady', 'False', 'NoNodeWithHandler');
      expect(await podsOf(namespace, 'nowhere')).toEqual([]);
    } finally {
      await operatorEnv('SANDBOX_RUNTIME_CLASS=gvisor', 'SANDBOX_HANDLER=runsc');
      await kube.remove('runtimeclass', 'elsewhere');
    }
    await ready('assistant', `${home}-nowhere`);
    expect((await runningPod(namespace, 'nowhere')).spec.runtimeClassName).toBe('gvisor');
  });
});
