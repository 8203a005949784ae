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
  manifest,
  namespaceOf,
  podsOf,
  ready,
  runningPod,
  unique,
  untilCondition,
} from './support/space.ts';
import { until } from './support/until.ts';

describe('bad input', () => {
  const home = unique('bad');
  let namespace: string;

  beforeAll(async () => {
    await kube.apply(capsule(home));
    namespace = await namespaceOf(home);
  });

  afterAll(async () => {
    await deleteCapsules(home);
  });

  it.each([
    ['a version of two numbers', { version: '1.0' }, /version/],
    ['an unknown property', { surprise: true }, /surprise/],
    ['a reserved id', { id: 'postgres' }, /id/],
  ])('a manifest with %s is refused by the API server, which names the field', async (_, change, names) => {
    const good = manifest('refused');
    const bad = { ...good, platform: { ...good.platform, ...change } };
    for (const flags of [[], ['--validate=false']]) {
      const args = ['apply', '--server-side', ...flags, '-f', '-'];
      const refusal = await kube.run(args, JSON.stringify(assistant(home, 'refused', { manifest: bad })));
      expect(refusal.code).not.toBe(0);
      expect(refusal.stderr).toMatch(names);
    }
  });

  it('a Capsule whose name is no valid id says so', async () => {
    await kube.apply(capsule('not.an.id'));
    const refusal = await untilCondition('capsule', 'not.an.id', 'NamespaceReady', 'False', 'InvalidName');
    expect(refusal.message).toMatch(/lowercase/);
    await kube.remove('capsule', 'not.an.id', installed.namespace);
    await gone('capsule', 'not.an.id', installed.namespace);
  });

  it('an Assistant of an unknown Capsule waits for it and says so', async () => {
    const later = unique('later');
    await kube.apply(assistant(later, 'waits', {}, later));
    const refusal = await untilCondition('assistant', later, 'CapsuleReady', 'False', 'CapsuleNotFound');
    expect(refusal.message).toContain(later);
    await kube.apply(capsule(later));
    await ready('assistant', later);
    await deleteCapsules(later);
  });

  it('an image that cannot be pulled is named, and its replacement is used', async () => {
    const name = `${home}-pull`;
    await kube.apply(assistant(home, 'pull', { image: 'space/no-such-image:1' }, name));
    const refusal = await untilCondition('assistant', name, 'WorkloadReady', 'False', 'ImagePullFailed');
    expect(refusal.message).toContain('space/no-such-image:1');
    await kube.apply(assistant(home, 'pull', {}, name));
    await ready('assistant', name);
  });

  it('a version that may do more waits for its approval and its scopes while the old one runs, and then it is rolled out', async () => {
    const name = `${home}-pull`;
    const template = async () => (await kube.get('deployment', 'pull', namespace))?.['spec'].template;
    const [before, pod] = [await template(), await runningPod(namespace, 'pull')];
    await kube.apply(capsule(home, { approval: 'manual' }));
    const asks = manifest('pull', { integrations: { mail: { scopes: ['read'] } } });
    const wider = { ...asks, platform: { ...asks.platform, version: '1.1.0' } };
    await kube.apply(assistant(home, 'pull', { manifest: wider }, name));
    // The manifest that runs needs an approval, too, from now on, and may be asked about first.
    const command = await until('the approval of the new manifest to be asked for', async () => {
      const asked = await getAssistant(name);
      const missing = conditionOf(asked, 'IntegrationsGranted');
      if (missing?.reason !== 'ApprovalMissing') return undefined;
      if (missing.observedGeneration !== asked?.metadata.generation) return undefined;
      return /: kubectl (.* annotate .*)$/.exec(missing.message)?.[1];
    });
    expect(await kube.run(command.split(' '))).toMatchObject({ code: 0 });
    const refusal = await untilCondition(
      'assistant',
      name,
      'IntegrationsGranted',
      'False',
      'ScopesNotGranted',
    );
    expect(refusal.message).toContain('mail (read)');
    expect(await template()).toEqual(before);
    const integrations = { mail: { scopes: ['read'] } };
    await kube.apply(capsule(home, { approval: 'manual', integrations }));
    await untilCondition('assistant', name, 'IntegrationsGranted', 'True', 'Ready');
    await until('another pod to run', async () => {
      const running = await runningPod(namespace, 'pull');
      return running.metadata.uid !== pod.metadata.uid;
    });
    const events = (await kube.list('events', installed.namespace)).filter(
      ({ reason, involvedObject }) => reason === 'PowersWidened' && involvedObject.name === name,
    );
    const scope = 'read of the integration mail';
    expect(events.map(({ message }) => message)).toEqual([expect.stringContaining(scope)]);
    // Another manifest has another digest, which is not approved.
    const next = { ...wider, platform: { ...wider.platform, version: '1.2.0' } };
    await kube.apply(assistant(home, 'pull', { manifest: next }, name));
    await untilCondition('assistant', name, 'IntegrationsGranted', 'False', 'ApprovalMissing');
  });

  it('a host that the gateway cannot enforce is refused', async () => {
    const name = `${home}-hosts`;
    const asks = manifest('hosts', { network: { allowed_hosts: ['*.example.com'] } });
    await kube.apply(assistant(home, 'hosts', { manifest: asks }, name));
    await untilCondition('assistant', name, 'EgressReady', 'False', 'HostNotEnforceable');
    expect(await podsOf(namespace, 'hosts')).toEqual([]);
  });
});
