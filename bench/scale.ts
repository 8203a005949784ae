/**
 * What many Capsules and Assistants, suspended from their birth, cost the operator: on a real API server with etcd, and
 * the operator as its image has it, in a process of its own with a ServiceAccount's token. A stand-in plays the kubelet
 * for the one probe of the sandbox; the chart's admission policies are not installed. `SPACE_BENCH_NODE_ARGS` reaches
 * the operator's Node, as for `--cpu-prof`.
 */
import { randomUUID } from 'node:crypto';
import * as kinds from '../operator/kinds.ts';
import { pathOf } from '../operator/runtime/objects.ts';
import { eventually } from '../operator/testing/eventually.ts';
import type { TestSpace } from '../operator/testing/space.ts';
import { openTheatre, type Theatre } from '../operator/testing/stage.ts';
import { testPrograms } from '../scripts/programs.ts';
import {
  type CrowdSize,
  createCrowd,
  type Followed,
  follow,
  isSettledAssistant,
  isSettledCapsule,
} from './operator/crowd.ts';
import { type OperatorProcess, operatorProgram, type Pod } from './operator/process.ts';
import { quantile, type Report, type Row } from './report.ts';

const SIZES = { quick: { capsules: 100, assistants: 500 }, full: { capsules: 1_000, assistants: 5_000 } };
const REST_SECONDS = { quick: 10, full: 30 };
const LIMIT_MS = 30 * 60_000;
/** As `operator.ts` has it: every object is looked at again after so long. */
const SWEEP_SECONDS = 600;
const LIVE = 'live';

/** What one size of crowd cost. */
interface Cost {
  readonly settleSeconds: number;
  readonly settleCpuSeconds: number;
  readonly assistantWrites: number;
  readonly capsuleWrites: number;
  readonly assistantEvents: number;
  readonly capsuleEvents: number;
  readonly requests: number;
  readonly brokerCalls: number;
  readonly emptyRssMiB: number;
  readonly rssMiB: number;
  readonly peakRssMiB: number;
  readonly restWrites: number;
  readonly restCpuPercent: number;
  readonly restartSeconds: number;
  readonly restartCpuSeconds: number;
  readonly restartPeakRssMiB: number;
  readonly restartWrites: number;
  readonly restartRequests: number;
  readonly live: readonly number[];
  readonly plannedMs: number;
  readonly crashMs: number;
}

export async function run({ quick }: { readonly quick: boolean }): Promise<Report> {
  process.env['SPACE_TEST_BIN'] ??= await testPrograms('.space/bench/bin');
  const whole = quick ? SIZES.quick : SIZES.full;
  const half = { capsules: whole.capsules / 2, assistants: whole.assistants / 2 };
  const restSeconds = quick ? REST_SECONDS.quick : REST_SECONDS.full;
  const small = await inTheatre(half, restSeconds);
  const large = await inTheatre(whole, restSeconds);
  const judged = judge(whole, small, large);
  return {
    title: `${whole.capsules} Capsules and ${whole.assistants} Assistants, suspended from birth; half of them first`,
    rows: judged.map(({ row }) => row),
    figures: Object.fromEntries(judged.map(({ key, figure }) => [key, figure])),
    notes: [
      'Growth is that of the whole crowd against half of it: 2 is linear. A fail-over is counted from the signal to the old leader until the new one has served a change.',
      'Half: ' + JSON.stringify(rounded(half, small)),
    ],
  };
}

interface Judged {
  readonly key: string;
  readonly figure: number;
  readonly row: Row;
}

function judge(size: CrowdSize, small: Cost, large: Cost): Judged[] {
  const most = (key: string, measure: string, unit: string, figure: number, target: number): Judged =>
    line(key, measure, unit, figure, `≤ ${target}`, figure <= target);
  const told = (key: string, measure: string, unit: string, figure: number): Judged =>
    line(key, measure, unit, figure, '', undefined);
  const perSecond = size.assistants / large.settleSeconds;
  const sweepPercent = (100 * large.restartCpuSeconds) / SWEEP_SECONDS;
  const objects = size.capsules + size.assistants;
  return [
    told('settle_seconds', 'time to settle', 's', large.settleSeconds),
    line('assistants_per_second', 'Assistants settled', '/s', perSecond, '≥ 20', perSecond >= 20),
    most('writes_per_assistant', 'writes per Assistant', '', large.assistantWrites, 4),
    most('writes_per_capsule', 'writes per Capsule', '', large.capsuleWrites, 12),
    told('events_per_assistant', '… of which Events', '', large.assistantEvents),
    told('events_per_capsule', '… of which Events, Capsule', '', large.capsuleEvents),
    told('requests_per_object', 'requests per object', '', large.requests / objects),
    told('broker_calls', 'broker calls', '', large.brokerCalls),
    most('peak_rss_mib', 'RSS, peak while settling', 'MiB', large.peakRssMiB, 200),
    told('rss_mib', 'RSS at rest', 'MiB', large.rssMiB),
    most('rest_writes', 'writes at rest', '', large.restWrites, 0),
    line(
      'rest_cpu_percent',
      'CPU at rest',
      '% of a core',
      large.restCpuPercent,
      '< 1',
      large.restCpuPercent < 1,
    ),
    told('sweep_cpu_percent', `a look at all every ${SWEEP_SECONDS} s adds`, '% of a core', sweepPercent),
    most('restart_writes', 'writes of a restart', '', large.restartWrites, 0),
    told('restart_seconds', 'a restart until at rest', 's', large.restartSeconds),
    told(
      'restart_requests_per_object',
      'requests of a restart per object',
      '',
      large.restartRequests / objects,
    ),
    most('restart_peak_rss_mib', 'RSS, peak of a restart', 'MiB', large.restartPeakRssMiB, 200),
    line(
      'live_p99_ms',
      `live change while settling, p99 of ${large.live.length}`,
      'ms',
      quantile(large.live, 0.99),
      '< 250',
      quantile(large.live, 0.99) < 250,
    ),
    told('live_p50_ms', '… p50', 'ms', quantile(large.live, 0.5)),
    most('planned_failover_ms', 'fail-over, planned', 'ms', large.plannedMs, 3_000),
    most('crash_failover_ms', 'fail-over after a crash', 'ms', large.crashMs, 18_000),
    most(
      'settle_cpu_growth',
      'growth of CPU to settle',
      '×',
      large.settleCpuSeconds / small.settleCpuSeconds,
      2.3,
    ),
    most(
      'restart_cpu_growth',
      'growth of CPU of a restart',
      '×',
      large.restartCpuSeconds / small.restartCpuSeconds,
      2.3,
    ),
    most(
      'rss_growth',
      'growth of RSS above an empty Space',
      '×',
      (large.peakRssMiB - large.emptyRssMiB) / (small.peakRssMiB - small.emptyRssMiB),
      2.3,
    ),
  ];
}

function line(
  key: string,
  measure: string,
  unit: string,
  exact: number,
  target: string,
  met: boolean | undefined,
): Judged {
  const figure = Math.round(exact * 100) / 100;
  const verdict = met === undefined ? '' : met ? 'met' : 'MISSED';
  return { key, figure, row: { measure, figure: `${figure} ${unit}`.trim(), target, verdict } };
}

const rounded = (size: CrowdSize, { live, ...cost }: Cost) => ({
  ...size,
  ...Object.fromEntries(Object.entries(cost).map(([key, value]) => [key, Math.round(value * 100) / 100])),
  live: live.length,
});

async function inTheatre(size: CrowdSize, restSeconds: number): Promise<Cost> {
  const theatre = await openTheatre();
  try {
    return await measure(theatre, await theatre.space(), size, restSeconds);
  } finally {
    await theatre.close();
  }
}

async function measure(
  theatre: Theatre,
  space: TestSpace,
  size: CrowdSize,
  restSeconds: number,
): Promise<Cost> {
  const { server, stage } = theatre;
  const { client } = server;
  const { namespace } = space.names;
  const say = (what: string) => console.error(`${size.capsules} Capsules: ${what}`);
  const program = await operatorProgram({
    names: space.names,
    kubeconfig: await serviceAccount(theatre, namespace),
    dbBrokerUrl: stage.broker.url,
    dbProvisionerToken: stage.mounts.provisioner,
  });
  const running = new Set<OperatorProcess>();
  const crash = Promise.withResolvers<never>();
  const start = async (pod: Pod) => {
    const operator = await program.start(pod);
    running.add(operator);
    operator.crash.catch(crash.reject);
    return operator;
  };
  const ending = new AbortController();
  async function stages(): Promise<Cost> {
    const first = { name: 'operator-a', uid: randomUUID() };
    const alone = await start(first);
    await space.capsule(LIVE, { suspend: true });
    await space.becomes(kinds.CAPSULE, LIVE, 'NamespaceReady', 'True Ready');
    await atRest(alone);
    const empty = await alone.usage();
    await alone.stop();

    say('creating');
    await createCrowd(client, namespace, size);
    const capsules = follow<kinds.Capsule>(client, kinds.CAPSULE, namespace, ending.signal);
    const assistants = follow<kinds.Assistant>(client, kinds.ASSISTANT, namespace, ending.signal);
    await Promise.all([capsules.synced, assistants.synced]);
    const change = await liveChanges(theatre, space, ending.signal);

    say('settling');
    const operator = await start(first);
    const cpuBefore = (await operator.usage()).cpuSeconds;
    await eventually(() => operator.leads(), { what: 'the operator leads', within: LIMIT_MS });
    const led = performance.now();
    const all = settled(capsules, assistants, size);
    const live: number[] = [];
    for (const lasting = { over: false }; !lasting.over; ) {
      live.push(await change());
      lasting.over = await Promise.race([
        all.then(() => true),
        new Promise<false>((r) => setTimeout(r, 20, false)),
      ]);
    }
    const settleSeconds = ((await all) - led) / 1000;
    await atRest(operator);
    const worked = await operator.measure();
    const usage = await operator.usage();
    const events = await countEvents(theatre, namespace);
    const writes = (kind: string) => worked.sum('space_operator_writes_total', { kind });
    const assistantWrites = writes('Assistant');
    const capsuleWrites = worked.sum('space_operator_writes_total') - assistantWrites - 2 * live.length;

    say(`at rest, for ${restSeconds} s`);
    await new Promise((resolve) => setTimeout(resolve, restSeconds * 1000));
    const rested = await operator.usage();
    const restEvents = (await countEvents(theatre, namespace)).all;
    const writesOf = async (of: OperatorProcess) => (await of.measure()).sum('space_operator_writes_total');
    const restWrites =
      (await writesOf(operator)) - worked.sum('space_operator_writes_total') + restEvents - events.all;

    say('killed, and started again');
    await operator.kill();
    const restarted = performance.now();
    const again = await start(first);
    await eventually(() => again.leads(), { what: 'the operator leads again', within: LIMIT_MS });
    await atRest(again);
    const restartSeconds = (performance.now() - restarted) / 1000 - REST_LOOKS;
    const relisted = await again.measure();
    const restartUsage = await again.usage();
    const restartEvents = (await countEvents(theatre, namespace)).all - restEvents;

    say('handing over');
    const second = await podOf(theatre, namespace, 'operator-b');
    const successor = await start(second);
    await eventually(() => successor.warm(), { what: 'the second is warm', within: LIMIT_MS });
    const stopping = performance.now();
    const stopped = again.stop();
    await change();
    const plannedMs = performance.now() - stopping;
    await stopped;
    const third = await start({ name: 'operator-c', uid: randomUUID() });
    await eventually(() => third.warm(), { what: 'the third is warm', within: LIMIT_MS });
    const killed = performance.now();
    await successor.kill();
    await change();
    const crashMs = performance.now() - killed;

    return {
      settleSeconds,
      settleCpuSeconds: usage.cpuSeconds - cpuBefore,
      assistantWrites: (assistantWrites + events.assistants) / size.assistants,
      capsuleWrites: (capsuleWrites + events.capsules) / size.capsules,
      assistantEvents: events.assistants / size.assistants,
      capsuleEvents: events.capsules / size.capsules,
      requests: worked.sum('rest_client_requests_total'),
      brokerCalls: worked.sum('space_operator_broker_call_seconds_count'),
      emptyRssMiB: empty.peakRssMiB,
      rssMiB: rested.rssMiB,
      peakRssMiB: rested.peakRssMiB,
      restWrites,
      restCpuPercent: (100 * (rested.cpuSeconds - usage.cpuSeconds)) / restSeconds,
      restartSeconds,
      restartCpuSeconds: restartUsage.cpuSeconds,
      restartPeakRssMiB: restartUsage.peakRssMiB,
      restartWrites: relisted.sum('space_operator_writes_total') + restartEvents,
      restartRequests: relisted.sum('rest_client_requests_total'),
      live,
      plannedMs,
      crashMs,
    };
  }
  try {
    return await Promise.race([stages(), crash.promise]);
  } finally {
    ending.abort();
    await Promise.all([...running].map((operator) => operator.kill()));
    await program.remove();
  }
}

/** Resolves with the moment at which the last one was seen to be settled. */
async function settled(
  capsules: Followed<kinds.Capsule>,
  assistants: Followed<kinds.Assistant>,
  size: CrowdSize,
): Promise<number> {
  const each = size.assistants / size.capsules;
  const open = new Set<string>();
  const done = Promise.withResolvers<number>();
  const look = (key: string, isSettled: boolean) => {
    if (isSettled) open.delete(key);
    else open.add(key);
    if (open.size === 0) done.resolve(performance.now());
  };
  const ofCapsule = (capsule: kinds.Capsule) =>
    capsule.metadata.name === LIVE || isSettledCapsule(capsule, each);
  for (const one of capsules.store.list()) if (!ofCapsule(one)) open.add(`c ${one.metadata.name}`);
  for (const one of assistants.store.list()) if (!isSettledAssistant(one)) open.add(`a ${one.metadata.name}`);
  capsules.store.onChange(({ now }) => now && look(`c ${now.metadata.name}`, ofCapsule(now)));
  assistants.store.onChange(({ now }) => now && look(`a ${now.metadata.name}`, isSettledAssistant(now)));
  const late = setTimeout(() => done.reject(new Error(`${open.size} never settled`)), LIMIT_MS);
  return done.promise.finally(() => clearTimeout(late));
}

/** Seconds of quiet that `atRest` asks for. */
const REST_LOOKS = 2;

/** Nothing waits, nothing is worked on, and nothing was for two seconds. */
async function atRest(operator: OperatorProcess): Promise<void> {
  const look = async () => {
    const seen = await operator.measure();
    const idle = seen.sum('workqueue_depth') + seen.sum('controller_runtime_active_workers') === 0;
    return { idle, reconciles: seen.sum('controller_runtime_reconcile_total') };
  };
  await eventually(
    async () => {
      const before = await look();
      await new Promise((resolve) => setTimeout(resolve, REST_LOOKS * 1000));
      const after = await look();
      return before.idle && after.idle && before.reconciles === after.reconciles;
    },
    { what: 'the operator is at rest', within: LIMIT_MS },
  );
}

/** Changes the quota of a Capsule outside the crowd; answers after how many ms its namespace has it. */
async function liveChanges(
  { server: { client } }: Theatre,
  space: TestSpace,
  signal: AbortSignal,
): Promise<() => Promise<number>> {
  const quotas = follow<kinds.ResourceQuota>(client, kinds.RESOURCE_QUOTA, space.namespaceOf(LIVE), signal);
  await quotas.synced;
  let pods = 20;
  let waiting: { readonly pods: string; readonly served: () => void } | undefined;
  quotas.store.onChange(({ now }) => {
    if (now?.spec?.hard?.['pods'] === waiting?.pods) waiting?.served();
  });
  return async () => {
    pods = pods === 20 ? 30 : 20;
    const { promise, resolve } = Promise.withResolvers<void>();
    waiting = { pods: String(pods), served: resolve };
    const asked = performance.now();
    await client.call({
      method: 'PATCH',
      path: pathOf(kinds.CAPSULE, space.names.namespace, LIVE),
      contentType: 'application/merge-patch+json',
      body: { spec: { quota: { pods } } },
    });
    await promise;
    return performance.now() - asked;
  };
}

/** A kubeconfig with a token of the operator's own ServiceAccount, so that it queues as a pod's would. */
async function serviceAccount({ server }: Theatre, namespace: string): Promise<string> {
  const name = 'operator';
  const accounts = `/api/v1/namespaces/${namespace}/serviceaccounts`;
  const { client } = server;
  await client.call({ method: 'POST', path: accounts, body: { metadata: { name } } });
  await client.call({
    method: 'POST',
    path: '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings',
    body: {
      metadata: { name: `${namespace}-operator` },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
      subjects: [{ kind: 'ServiceAccount', name, namespace }],
    },
  });
  const { status } = await client.call<{ readonly status: { readonly token: string } }>({
    method: 'POST',
    path: `${accounts}/${name}/token`,
    body: { spec: { expirationSeconds: 4 * 3600 } },
  });
  const config = JSON.parse(server.kubeconfig);
  for (const { user } of config.users) user.token = status.token;
  return JSON.stringify(config);
}

/** A pod that the API server knows, so that whoever waits cannot tell that its process is dead. */
async function podOf({ server: { client } }: Theatre, namespace: string, name: string): Promise<Pod> {
  const { metadata } = await client.call<kinds.Pod>({
    method: 'POST',
    path: pathOf(kinds.POD, namespace),
    body: { metadata: { name }, spec: { containers: [{ name, image: 'registry.test/operator:1' }] } },
  });
  return { name, uid: metadata.uid ?? '' };
}

async function countEvents({ server: { client } }: Theatre, namespace: string) {
  const events = { ...kinds.POD, group: 'events.k8s.io', plural: 'events', kind: 'Event' };
  const { items } = await client.call<{ items: { readonly regarding: { readonly kind: string } }[] }>({
    method: 'GET',
    path: pathOf(events, namespace),
    timeoutMs: 60_000,
  });
  const about = (kind: string) => items.filter(({ regarding }) => regarding.kind === kind).length;
  return { all: items.length, assistants: about('Assistant'), capsules: about('Capsule') };
}
