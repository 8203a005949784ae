/**
 * Network policies that nothing enforces, or only in one direction, or late. The test removes what the network plugin
 * has put into the kernel and restores it, and uses a policy of the plugin's own kind, which it evaluates first, to
 * let one direction through.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { finish } from '../space/kube.ts';
import { resultsIn, TRY_TARGETS } from '../verify/look.ts';
import { allowPolicy, enforceAll, type Hole, openMatrix } from './support/one-way.ts';
import {
  assistant,
  capsule,
  conditionOf,
  deleteCapsules,
  enterNodes,
  getAssistant,
  installed,
  kube,
  namespaceOf,
  ONE_POD,
  podsOf,
  ready,
  runningPod,
  system,
  unique,
  untilCondition,
} from './support/space.ts';
import { until } from './support/until.ts';

const PROBES = 'platform.space/component=network-probe';

/** What the script prints in each node. */
async function onNodes(script: string): Promise<readonly string[]> {
  const nodes = await enterNodes();
  if (nodes.length === 0) throw new Error('only a node of our own can be entered');
  return Promise.all(
    nodes.map(async (command) => {
      const [program, ...args] = command(['bash', '-ec', script]);
      const { code, stdout, stderr } = await finish(program, args);
      if (code !== 0) throw new Error(stderr);
      return stdout.trim();
    }),
  );
}

/** Finds the agent in the node's own process namespace. */
const FELIX =
  'felix=$(for p in /proc/[0-9]*; do grep -qx calico-felix $p/comm 2>/dev/null && basename $p; done; true)';

/** Stops the agent, and removes the jumps to all its chains, so that every connection is possible. */
const OFF = `
${FELIX}; kill -STOP $felix
jumps() { iptables -S | grep -- '^-A [A-Z]* .*-j cali-[A-Z]*$' || true; }
jumps | sed 's/^-A/iptables -D/' | bash
jumps | wc -l
`;
/** Restarts the agent, which then writes all that is missing. */
const ON = `${FELIX}; kill -CONT $felix; kill -TERM $felix`;

const network = async () => kube.list('pods', system, PROBES);
/** Makes the operator probe again, as another boot, another version or an hour would. */
async function askAgain(): Promise<void> {
  for (const { metadata } of await network()) await kube.remove('pod', metadata.name, system);
}

interface Way {
  readonly unenforced: Hole;
  /** The targets that a probe then reaches, and those that it does not. */
  readonly open: readonly string[];
  readonly closed: readonly string[];
  /**
   * One cell that then differs, and a pattern that no differing cell matches, since the other direction is still
   * enforced.
   */
  readonly cell: string;
  readonly none: RegExp;
}

const WAYS: readonly (readonly [string, Way])[] = [
  [
    'enforces what goes out alone',
    {
      unenforced: { type: 'Ingress' },
      open: ['the canary, where no policy lets it in'],
      closed: ['the canary, where no policy lets it go', 'the DNS server', 'the API server', 'its node'],
      cell: `client -> ${ONE_POD.part} tcp ${ONE_POD.port}: expected closed, observed connected`,
      none: /^(Assistant|keys|unlabelled)\b.* -> (stranger|API server|node)/,
    },
  ],
  [
    'enforces what comes in alone',
    {
      unenforced: { type: 'Egress' },
      open: ['the canary, where no policy lets it go', 'the DNS server', 'the API server', 'its node'],
      closed: ['the canary, where no policy lets it in'],
      cell: 'Assistant a -> stranger tcp 8080: expected closed, observed connected',
      none: /^(client|neighbour|stranger) -> (s3|postgres|db-broker)/,
    },
  ],
  [
    'leaves DNS open',
    {
      unenforced: { type: 'Egress', only: { protocol: 'UDP', destination: { ports: [53] } } },
      open: ['the DNS server'],
      closed: ['the canary, where no policy lets it go', 'the API server', 'its node'],
      cell: 'Assistant a -> DNS udp 53: expected closed, observed connected',
      none: / tcp \d+: expected closed/,
    },
  ],
];

describe('walls that hold one way alone', () => {
  const home = unique('oneway');
  const patience = { seconds: 600, signal: new AbortController().signal };
  let matrix: Awaited<ReturnType<typeof openMatrix>>;

  beforeAll(async () => {
    await kube.apply(capsule(home), assistant(home, 'before', {}, `${home}-before`));
    await ready('assistant', `${home}-before`);
    matrix = await openMatrix(patience);
    expect(await matrix.wrong()).toEqual([]);
  });
  afterEach(enforceAll);
  afterAll(async () => {
    await matrix?.close();
    await deleteCapsules(home);
  });

  it.each(WAYS)(
    'are detected, and named by the condition and by verify: a plugin that %s',
    async (_, way) => {
      await kube.apply(allowPolicy(way.unenforced));
      // A policy takes a moment to take effect on a node, so an earlier probe does not count.
      const wrong = await until('verify to name it', async () => {
        const found = await matrix.wrong();
        return found.includes(way.cell) ? found : undefined;
      });
      expect(wrong.filter((line) => way.none.test(line))).toEqual([]);
      await askAgain();
      const { message } = await untilCondition('capsule', home, 'NetworkReady', 'False', 'EnforcementFailed');
      console.info(message);
      for (const what of way.open) expect(message).toContain(what);
      expect(message).toMatch(/ UDP port /);
      for (const what of way.closed) expect(message).not.toContain(`${what} (`);

      await enforceAll();
      await until('every wall to stand again', async () => (await matrix.wrong()).length === 0);
      // A failed probe is repeated by itself. If it were requested again, it would still run when the next test begins.
      await ready('capsule', home);
    },
  );

  it('are waited for by a pod before tenant code, under a plugin that enforces later than pods begin', async () => {
    const namespace = await namespaceOf(home);
    const name = `${home}-later`;
    const command = [
      'perl',
      '-e',
      TRY_TARGETS,
      '3',
      '20',
      `tcp ${await serviceAddress('kubernetes', 'default')} 443`,
    ];
    await kube.apply(allowPolicy({ type: 'Egress' }));
    await until('egress to be open', async () => (await matrix.wrong()).length > 0);
    // The operator's own probe has passed, and is not repeated, so only the pod itself can notice.
    await kube.apply(
      assistant(home, 'later', { command, env: [{ name: 'LISTEN', value: '8080' }], port: 8080 }, name),
    );
    await untilCondition('assistant', name, 'WorkloadReady', 'False', 'NotAttested');
    const [waiting] = await podsOf(namespace, 'later');
    expect(waiting?.['status'].containerStatuses?.[0]?.state.running).toBeUndefined();
    await enforceAll();
    await ready('assistant', name);
    const found = await until('its first look', async () => {
      const { metadata } = await runningPod(namespace, 'later');
      const args = ['logs', '-n', namespace, metadata.name, '-c', 'assistant'];
      return resultsIn((await kube.run(args)).stdout);
    });
    expect([...found.values()].map(({ seen }) => seen)).toEqual(['silence']);
  });
});

const serviceAddress = async (name: string, namespace: string): Promise<string> =>
  (await kube.get('service', name, namespace))?.['spec'].clusterIP;

describe('walls', () => {
  const home = unique('walls');
  const late = unique('walls');
  let node = false;

  beforeAll(async () => {
    node = (await enterNodes()).length > 0;
  });
  afterAll(async () => {
    if (node) await onNodes(ON).catch(() => undefined);
    await deleteCapsules(home, late);
  });

  it('are tested once on each node, by a pod that reaches what it may and nothing else', async () => {
    await kube.apply(capsule(home), assistant(home, 'early', {}, `${home}-early`));
    await ready('assistant', `${home}-early`);
    expect(conditionOf(await kube.get('capsule', home, installed.namespace), 'NetworkReady')).toMatchObject({
      status: 'True',
      message: expect.stringContaining('a probe has confirmed it'),
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
    expect(new Set(await onNodes(OFF))).toEqual(new Set(['0']));
    await askAgain();
    const found = await untilCondition('capsule', home, 'NetworkReady', 'False', 'EnforcementFailed');
    console.info(found.message);
    for (const open of [
      'the canary, where no policy lets it go',
      'the canary, where no policy lets it in',
      'the DNS server',
      'the API server',
      'its node',
    ])
      expect(found.message).toContain(open);
    await untilCondition('capsule', home, 'Ready', 'False', 'EnforcementFailed');

    await kube.apply(
      capsule(late),
      assistant(late, 'late', {}, `${late}-late`),
      assistant(home, 'later', {}, `${home}-later`),
    );
    await untilCondition('capsule', late, 'Ready', 'False', 'EnforcementFailed');
    await untilCondition('assistant', `${home}-later`, 'CapsuleReady', 'False', 'CapsuleNotReady');
    expect(await podsOf(namespace, 'later')).toEqual([]);
    // Running pods continue.
    expect((await runningPod(namespace, 'early')).metadata.uid).toBe(before.metadata.uid);

    await onNodes(ON);
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
        const said = await untilCondition('capsule', home, 'NetworkReady', 'Unknown', 'EnforcementUnproven');
        return said.message.includes('not reached: the canary');
      });
    } finally {
      await kube.run(['scale', ...canary, '--replicas=1']);
    }
    await ready('capsule', home);
  });
});
