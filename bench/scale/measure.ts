import { randomUUID } from 'node:crypto';
import * as kinds from '../../operator/kinds.ts';
import { pathOf } from '../../operator/runtime/kube-object.ts';
import { type OperatorProcess, operatorProgram, type Pod } from '../../operator/testing/program.ts';
import type { TestSpace } from '../../operator/testing/space.ts';
import { openTestEnvironment, type TestEnvironment } from '../../operator/testing/test-environment.ts';
import { eventually } from '../../testing/eventually.ts';
import { type CrowdSize, createCrowd, follow } from '../operator/crowd.ts';
import { podOf, serviceAccount } from './account.ts';
import type { Cost } from './judge.ts';
import { LIVE, liveChanges } from './live.ts';
import { atRest, REST_LOOKS } from './rest.ts';
import { settled } from './settled.ts';

const WRITES = 'space_operator_writes_total';
const LIMIT_MS = 5 * 60_000;
/** At rest, as a measure of what the machine itself takes. */
const CALM_CHANGES = 50;
/** Between two live changes. */
const PAUSE_MS = 50;

/** On an API server of its own. */
export async function inTheatre(size: CrowdSize, restSeconds: number): Promise<Cost> {
  const environment = await openTestEnvironment();
  try {
    return await measure(environment, await environment.space(), size, restSeconds);
  } finally {
    await environment.close();
  }
}

async function measure(
  environment: TestEnvironment,
  space: TestSpace,
  size: CrowdSize,
  restSeconds: number,
): Promise<Cost> {
  const { server, database } = environment;
  const { client } = server;
  const { namespace, systemNamespace } = space.names;
  const began = performance.now();
  const say = (what: string) =>
    console.error(`${size.capsules} Capsules, ${Math.round((performance.now() - began) / 1000)} s: ${what}`);
  const program = await operatorProgram({
    names: space.names,
    kubeconfig: await serviceAccount(environment, systemNamespace),
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
    const change = await liveChanges(environment, space, ending.signal);

    say('settling');
    const operator = await start(first);
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
    const worked = await operator.measure();
    const usage = await operator.usage();
    const events = await countEvents(environment, namespace);
    const writes = (kind: string) => worked.sum(WRITES, { kind });
    const assistantWrites = writes('Assistant');
    const capsuleWrites = worked.sum(WRITES) - assistantWrites - 2 * live.length;

    say(`settled after ${settleSeconds.toFixed(1)} s; at rest, for ${restSeconds} s`);
    const saidBefore = operator.said();
    await new Promise((resolve) => setTimeout(resolve, restSeconds * 1000));
    const rested = await operator.usage();
    const restEvents = (await countEvents(environment, namespace)).all;
    const after = await operator.measure();
    const restWrites = after.sum(WRITES) - worked.sum(WRITES) + restEvents - events.all;
    for (const name of [WRITES, 'controller_runtime_reconcile_total', 'rest_client_requests_total'])
      for (const line of after.above(worked, name)) say(`at rest, ${line}`);
    if (operator.said() !== saidBefore) say(`at rest it said: ${operator.said().slice(-2_000)}`);

    const calm: number[] = [];
    while (calm.length < CALM_CHANGES) calm.push(await change());
    // The last one's status may not be written yet, and its end would be the restart's to write.
    await atRest(operator);
    const calmEvents = (await countEvents(environment, namespace)).all;

    say('killed, and started again');
    await operator.kill();
    const restarted = performance.now();
    const again = await start(first);
    await eventually(() => again.leads(), { what: 'the operator leads again', within: LIMIT_MS });
    await atRest(again);
    const restartSeconds = (performance.now() - restarted) / 1000 - REST_LOOKS;
    const relisted = await again.measure();
    const restartUsage = await again.usage();
    const restartEvents = (await countEvents(environment, namespace)).all - calmEvents;

    say('handing over');
    const second = await podOf(environment, systemNamespace, 'operator-b');
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
      restartWrites: relisted.sum(WRITES) + restartEvents,
      restartRequests: relisted.sum('rest_client_requests_total'),
      live,
      calm,
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

async function countEvents({ server: { client } }: TestEnvironment, namespace: string) {
  const events = { ...kinds.POD, group: 'events.k8s.io', plural: 'events', kind: 'Event' };
  const { items } = await client.call<{ items: { readonly regarding: { readonly kind: string } }[] }>({
    method: 'GET',
    path: pathOf(events, namespace),
    timeoutMs: 60_000,
  });
  const about = (kind: string) => items.filter(({ regarding }) => regarding.kind === kind).length;
  return { all: items.length, assistants: about('Assistant'), capsules: about('Capsule') };
}
