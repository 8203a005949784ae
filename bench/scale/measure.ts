import { randomUUID } from 'node:crypto';
import * as kinds from '../../operator/kinds.ts';
import { pathOf } from '../../operator/runtime/kube-object.ts';
import { type OperatorProcess, operatorProgram, type Pod } from '../../operator/testing/program.ts';
import type { TestSpace } from '../../operator/testing/space.ts';
import { openTestEnvironment, type TestEnvironment } from '../../operator/testing/test-environment.ts';
import { eventually } from '../../testing/eventually.ts';
import { createPopulation, follow, type PopulationSize } from '../operator/population.ts';
import { podOf, serviceAccount } from './account.ts';
import type { Cost } from './judge.ts';
import { LIVE, liveChanges } from './live.ts';
import { atRest, QUIET_SECONDS, WRITES } from './rest.ts';
import { settled } from './settled.ts';

const LIMIT_MS = 5 * 60_000;
/** Live changes at rest, for comparison with those while the population settles. */
const CALM_CHANGES = 50;
/** The pause between two live changes. */
const PAUSE_MS = 50;

/** Runs the measurement on an API server of its own. */
export async function inTestEnvironment(size: PopulationSize, restSeconds: number): Promise<Cost> {
  const environment = await openTestEnvironment();
  try {
    return await measure(environment, await environment.space(), size, restSeconds);
  } finally {
    await environment.close();
  }
}

/** One run, and how it starts operators. */
interface Run {
  readonly environment: TestEnvironment;
  readonly space: TestSpace;
  readonly size: PopulationSize;
  readonly restSeconds: number;
  readonly say: (what: string) => void;
  readonly start: (pod: Pod) => Promise<OperatorProcess>;
  /** Aborted at its end. */
  readonly signal: AbortSignal;
}

async function measure(
  environment: TestEnvironment,
  space: TestSpace,
  size: PopulationSize,
  restSeconds: number,
): Promise<Cost> {
  const { database } = environment;
  const began = performance.now();
  const say = (what: string) =>
    console.error(`${size.capsules} Capsules, ${Math.round((performance.now() - began) / 1000)} s: ${what}`);
  const program = await operatorProgram({
    names: space.names,
    kubeconfig: await serviceAccount(environment, space.names.systemNamespace),
    dbBrokerUrl: database.broker.url,
    dbProvisionerToken: database.mounts.provisioner,
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
  const run: Run = { environment, space, size, restSeconds, say, start, signal: ending.signal };
  try {
    return await Promise.race([stages(run), crash.promise]);
  } finally {
    ending.abort();
    await Promise.all([...running].map((operator) => operator.kill()));
    await program.remove();
  }
}

/** Measures an empty Space, a population that settles, the rest after it, changes at rest, a restart, and two fail-overs. */
async function stages(run: Run): Promise<Cost> {
  const { say } = run;
  const pod = { name: 'operator-a', uid: randomUUID() };
  const emptyRssMiB = await weighEmpty(run, pod);
  say('creating the population');
  const population = await startPopulation(run);
  say('the operator starts, and the population settles');
  const { operator, after, cost: settling } = await settle(run, population, pod);
  const resting = await rest(run, operator, after);
  const calm: number[] = [];
  while (calm.length < CALM_CHANGES) calm.push(await population.change());
  // The status of the last change may not be written yet, and that write would count for the restart.
  await atRest(operator);
  say('the operator is killed and started again');
  const { again, cost: restarting } = await restart(run, operator, pod);
  say('standbys take over');
  const failovers = await handOver(run, again, population.change);
  return { emptyRssMiB, ...settling, ...resting, calm, ...restarting, ...failovers };
}

async function weighEmpty({ space, start }: Run, pod: Pod): Promise<number> {
  const alone = await start(pod);
  await space.capsule(LIVE, { suspend: true });
  await space.becomes(kinds.CAPSULE, LIVE, 'NamespaceReady', 'True Ready');
  await atRest(alone);
  const empty = await alone.usage();
  await alone.stop();
  return empty.peakRssMiB;
}

async function startPopulation({ environment, space, size, signal }: Run) {
  const { client } = environment.server;
  const { namespace } = space.names;
  await createPopulation(client, namespace, size);
  const capsules = follow<kinds.Capsule>(client, kinds.CAPSULE, namespace, signal);
  const assistants = follow<kinds.Assistant>(client, kinds.ASSISTANT, namespace, signal);
  await Promise.all([capsules.synced, assistants.synced]);
  return { capsules, assistants, change: await liveChanges(environment, space, signal) };
}

type Population = Awaited<ReturnType<typeof startPopulation>>;

/** Reads the operator's metrics, its use of resources, and the Events at the API server. */
async function accountsOf({ environment, space }: Run, operator: OperatorProcess) {
  const metrics = await operator.measure();
  const usage = await operator.usage();
  return { metrics, usage, events: await readEvents(environment, space.names.namespace) };
}

type Accounts = Awaited<ReturnType<typeof accountsOf>>;

async function settle(run: Run, { capsules, assistants, change }: Population, pod: Pod) {
  const { size, say } = run;
  const operator = await run.start(pod);
  const cpuBefore = (await operator.usage()).cpuSeconds;
  await eventually(() => operator.leads(), { what: 'the operator leads', within: LIMIT_MS });
  const led = performance.now();
  const all = settled(capsules, assistants, size, say);
  const live: number[] = [];
  for (const lasting = { over: false }; !lasting.over; ) {
    live.push(await change());
    lasting.over = await Promise.race([
      all.then(() => true),
      new Promise<false>((r) => setTimeout(r, PAUSE_MS, false)),
    ]);
  }
  const settleSeconds = ((await all) - led) / 1000;
  await atRest(operator);
  const after = await accountsOf(run, operator);
  say(`settled after ${settleSeconds.toFixed(1)} s; it now rests for ${run.restSeconds} s`);
  const { metrics, usage, events } = after;
  const assistantWrites = metrics.sum(WRITES, { kind: 'Assistant' });
  const capsuleWrites = metrics.sum(WRITES) - assistantWrites - 2 * live.length;
  const assistantEvents = countEvents(events, NO_EVENTS, 'Assistant');
  const capsuleEvents = countEvents(events, NO_EVENTS, 'Capsule');
  const cost = {
    settleSeconds,
    settleCpuSeconds: usage.cpuSeconds - cpuBefore,
    assistantWrites: (assistantWrites + assistantEvents) / size.assistants,
    capsuleWrites: (capsuleWrites + capsuleEvents) / size.capsules,
    assistantEvents: assistantEvents / size.assistants,
    capsuleEvents: capsuleEvents / size.capsules,
    requests: metrics.sum('rest_client_requests_total'),
    brokerCalls: metrics.sum('space_operator_broker_call_seconds_count'),
    live,
  };
  return { operator, after, cost };
}

async function rest(run: Run, operator: OperatorProcess, before: Accounts) {
  const { restSeconds, say } = run;
  const saidBefore = operator.said();
  await new Promise((resolve) => setTimeout(resolve, restSeconds * 1000));
  const rested = await operator.usage();
  const events = await readEvents(run.environment, run.space.names.namespace);
  const after = await operator.measure();
  for (const name of [WRITES, 'controller_runtime_reconcile_total', 'rest_client_requests_total'])
    for (const line of after.above(before.metrics, name)) say(`changed during the rest: ${line}`);
  if (operator.said() !== saidBefore) say(`logged during the rest: ${operator.said().slice(-2_000)}`);
  return {
    rssMiB: rested.rssMiB,
    peakRssMiB: rested.peakRssMiB,
    restWrites: after.sum(WRITES) - before.metrics.sum(WRITES) + countEvents(events, before.events),
    restCpuPercent: (100 * (rested.cpuSeconds - before.usage.cpuSeconds)) / restSeconds,
  };
}

async function restart(run: Run, operator: OperatorProcess, pod: Pod) {
  const before = await readEvents(run.environment, run.space.names.namespace);
  await operator.kill();
  const restarted = performance.now();
  const again = await run.start(pod);
  await eventually(() => again.leads(), { what: 'the operator leads again', within: LIMIT_MS });
  await atRest(again);
  const restartSeconds = (performance.now() - restarted) / 1000 - QUIET_SECONDS;
  const { metrics, usage, events } = await accountsOf(run, again);
  const cost = {
    restartSeconds,
    restartCpuSeconds: usage.cpuSeconds,
    restartPeakRssMiB: usage.peakRssMiB,
    restartWrites: metrics.sum(WRITES) + countEvents(events, before),
    restartRequests: metrics.sum('rest_client_requests_total'),
  };
  return { again, cost };
}

/** Measures how long a warm standby takes over, from an operator that stops and from one that is killed. */
async function handOver(
  { environment, space, start }: Run,
  first: OperatorProcess,
  change: Population['change'],
) {
  const successor = await start(await podOf(environment, space.names.systemNamespace, 'operator-b'));
  await eventually(() => successor.warm(), { what: 'the second is warm', within: LIMIT_MS });
  const stopping = performance.now();
  const stopped = first.stop();
  await change();
  const plannedMs = performance.now() - stopping;
  await stopped;
  const third = await start({ name: 'operator-c', uid: randomUUID() });
  await eventually(() => third.warm(), { what: 'the third is warm', within: LIMIT_MS });
  const killed = performance.now();
  await successor.kill();
  await change();
  return { plannedMs, crashMs: performance.now() - killed };
}

/** The kinds of what Events are about, by uid and version: an Event that occurs again is written again. */
type Events = ReadonlyMap<string, string>;

/** Events of the namespace. The API server forgets them after an hour. */
async function readEvents({ server: { client } }: TestEnvironment, namespace: string): Promise<Events> {
  const events = { ...kinds.POD, group: 'events.k8s.io', plural: 'events', kind: 'Event' };
  const { items } = await client.call<{
    items: {
      readonly metadata: { readonly uid: string; readonly resourceVersion: string };
      readonly regarding: { readonly kind: string };
    }[];
  }>({ method: 'GET', path: pathOf(events, namespace), timeoutMs: 60_000 });
  return new Map(
    items.map(({ metadata, regarding }) => [`${metadata.uid} ${metadata.resourceVersion}`, regarding.kind]),
  );
}

/** Counts Events that were written since, of one kind of object or of all. */
function countEvents(events: Events, since: Events, kind?: string): number {
  const anew = [...events].filter(([version]) => !since.has(version));
  return anew.filter(([, about]) => kind === undefined || about === kind).length;
}

const NO_EVENTS: Events = new Map();
