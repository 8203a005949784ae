/** Walls that nobody enforces: what the network plugin has put into the kernel is taken out, and put in again. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openCluster } from '../cluster/index.ts';
import { finish } from '../space/kube.ts';
import {
  assistant,
  capsule,
  conditionOf,
  getAssistant,
  installed,
  kube,
  leave,
  namespaceOf,
  podsOf,
  ready,
  runningPod,
  system,
  told,
  unique,
} from './support/space.ts';
import { until } from './support/until.ts';

const PROBES = 'platform.space/component=network-probe';

async function onNode(script: string): Promise<string> {
  const node = (await openCluster(installed.cluster))?.node;
  if (node === undefined) throw new Error('only a node of our own can be entered');
  const [program, ...args] = node.command(['bash', '-ec', script]);
  const { code, stdout, stderr } = await finish(program, args);
  if (code !== 0) throw new Error(stderr);
  return stdout.trim();
}

/** Of the node's own process namespace. */
const FELIX =
  'felix=$(for p in /proc/[0-9]*; do grep -qx calico-felix $p/comm 2>/dev/null && basename $p; done; true)';

/** The agent stands still, and the jumps to all that it has written are taken out: everything may go everywhere. */
const OFF = `
${FELIX}; kill -STOP $felix
jumps() { iptables -S | grep -- '^-A [A-Z]* .*-j cali-[A-Z]*$' || true; }
jumps | sed 's/^-A/iptables -D/' | bash
jumps | wc -l
`;
/** It begins anew, and writes all that is missing. */
const ON = `${FELIX}; kill -CONT $felix; kill -TERM $felix`;

const network = async () => kube.list('pods', system, PROBES);
/** Another boot, another version or an hour would do the same. */
async function askAgain(): Promise<void> {
  for (const { metadata } of await network()) await kube.remove('pod', metadata.name, system);
}

describe('walls', () => {
  const home = unique('walls');
  const late = unique('walls');
  let node = false;

  beforeAll(async () => {
    node = (await openCluster(installed.cluster))?.node !== undefined;
  });
  afterAll(async () => {
    if (node) await onNode(ON).catch(() => undefined);
    await leave(home, late);
  });

  it('are tried once on each node, by a pod that reaches what it may and nothing else', async () => {
    await kube.apply(capsule(home), assistant(home, 'early', {}, `${home}-early`));
    await ready('assistant', `${home}-early`);
    expect(conditionOf(await kube.get('capsule', home, installed.namespace), 'NetworkReady')).toMatchObject({
      status: 'True',
      message: expect.stringContaining('a probe has found it so'),
    });
    const probes = await network();
    const { items: nodes } = JSON.parse((await kube.run(['get', 'nodes', '-o', 'json'])).stdout);
    expect(probes).toHaveLength(nodes.length);
    for (const { status, spec, metadata } of probes) {
      expect([status.phase, spec.runtimeClassName]).toEqual(['Succeeded', 'gvisor']);
      expect(metadata).toMatchObject({ ownerReferences: [{ name: `${installed.space}-operator` }] });
    }
  });

  it('finds what a fresh probe reaches while nothing is enforced, and lets no Capsule be Ready until something is', async (context) => {
    if (!node) return context.skip('only a cluster of our own lets tests enter its node');
    const namespace = await namespaceOf(home);
    const before = await runningPod(namespace, 'early');
    expect(await onNode(OFF)).toBe('0');
    await askAgain();
    const found = await told('capsule', home, 'NetworkReady', 'False', 'EnforcementFailed');
    console.info(found.message);
    for (const open of [
      'the canary, where no policy lets it go',
      'the canary, where no policy lets it in',
      'the API server',
      'its node',
    ])
      expect(found.message).toContain(open);
    await told('capsule', home, 'Ready', 'False', 'EnforcementFailed');

    await kube.apply(
      capsule(late),
      assistant(late, 'late', {}, `${late}-late`),
      assistant(home, 'later', {}, `${home}-later`),
    );
    await told('capsule', late, 'Ready', 'False', 'EnforcementFailed');
    await told('assistant', `${home}-later`, 'CapsuleReady', 'False', 'CapsuleNotReady');
    expect(await podsOf(namespace, 'later')).toEqual([]);
    // What runs goes on.
    expect((await runningPod(namespace, 'early')).metadata.uid).toBe(before.metadata.uid);

    await onNode(ON);
    await ready('capsule', late);
    await ready('assistant', `${home}-later`);
    await ready('assistant', `${late}-late`);
    expect(conditionOf(await getAssistant(`${home}-early`), 'Ready')?.status).toBe('True');
  });

  it('are not proved by a probe that reaches nothing at all', async () => {
    await until('the last probe to have passed', async () =>
      (await network()).every(({ status }) => status.phase === 'Succeeded'),
    );
    const canary = ['-n', `${installed.space}-services`, 'deployment/canary'];
    expect((await kube.run(['scale', ...canary, '--replicas=0'])).code).toBe(0);
    try {
      await askAgain();
      await until('the probe to say what it did not reach', async () => {
        const said = await told('capsule', home, 'NetworkReady', 'Unknown', 'EnforcementUnproven');
        return said.message.includes('not reached: the canary');
      });
    } finally {
      await kube.run(['scale', ...canary, '--replicas=1']);
    }
    await ready('capsule', home);
  });
});
