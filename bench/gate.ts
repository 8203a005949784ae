/**
 * Measures how fast the sandbox gate reacts: from the moment at which a change of the RuntimeClass can be read at a real API
 * server until the operator schedules nothing any more, until the conditions of every Capsule and Assistant show it, and back.
 * The operator runs in this process; a stand-in replaces the kubelet, so the time of a node is not included.
 */
import { once } from 'node:events';
import { findTool } from '../e2e/cluster/tools.ts';
import { sandboxPolicies } from '../e2e/space/policies.ts';
import * as kinds from '../operator/kinds.ts';
import { ApiError } from '../operator/runtime/errors.ts';
import { type KubeObject, pathOf, type Resource } from '../operator/runtime/kube-object.ts';
import type { TestSpace } from '../operator/testing/space.ts';
import { openTestEnvironment, type TestEnvironment } from '../operator/testing/test-environment.ts';
import { eventually } from '../testing/eventually.ts';
import { quantile, type Report, type Row } from '../testing/report.ts';

const SIZES = {
  quick: { capsules: 5, assistants: 20, rounds: 5 },
  full: { capsules: 50, assistants: 200, rounds: 100 },
};
type Size = (typeof SIZES)['quick'];
const LIMIT_MS = 120_000;
/** After this many refusals in a row, admission is considered closed. */
const REFUSALS = 20;

type Conditioned = KubeObject & {
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
};

export async function run({ quick }: { readonly quick: boolean }): Promise<Report> {
  const environment = await openTestEnvironment();
  try {
    return await measure(environment, await environment.space(), quick ? SIZES.quick : SIZES.full);
  } finally {
    await environment.close();
  }
}

async function measure(environment: TestEnvironment, space: TestSpace, size: Size): Promise<Report> {
  const { client } = environment.server;
  const { namespace, runtimeClass: name } = space.names;
  const seen = new Moments();
  await space.start({ onGate: ({ status }) => seen.note(`gate ${status}`) });
  // Suspended objects have no pods, but their conditions show the gate as well.
  for (let i = 0; i < size.capsules; i += 1) await space.capsule(`c${i}`, { suspend: true });
  for (let i = 0; i < size.assistants; i += 1) {
    await space.assistant(`a${i}`, { capsule: `c${i % size.capsules}`, suspend: true });
  }
  // One Capsule and one Assistant run; admission is tested with their pod.
  const all = size.capsules + size.assistants + 2;
  const told = new Map<string, string>();
  const tell = ({ kind, metadata, status }: Conditioned) => {
    const sandbox = status?.conditions?.find(({ type }) => type === 'SandboxReady')?.status ?? 'none';
    told.set(`${kind}/${metadata.name}`, sandbox);
    if (told.size === all && new Set(told.values()).size === 1) seen.note(`all ${sandbox}`);
  };
  const admission = await guard(environment, space);
  const ending = new AbortController();
  const watches = [
    watch(environment, kinds.CAPSULE, namespace, ending.signal, ({ object }) => tell(object)),
    watch(environment, kinds.ASSISTANT, namespace, ending.signal, ({ object }) => tell(object)),
    watch(environment, kinds.RUNTIME_CLASS, undefined, ending.signal, ({ type, object }) => {
      if (object.metadata.name === name) seen.note(`class ${type}`);
    }),
  ];
  await seen.reached('all True');

  const samples: Samples = { closes: [], told: [], admits: [], opens: [], resumed: [] };
  for (let round = 0; round < size.rounds; round += 1)
    await closeAndOpen({ client, space, seen, admission }, samples);
  ending.abort();
  await Promise.all(watches);
  return reportOf(size, samples);
}

/** Times of each round, in milliseconds after a watch delivered the change. */
interface Samples {
  readonly closes: number[];
  readonly told: number[];
  readonly admits: number[];
  readonly opens: number[];
  readonly resumed: number[];
}

interface Watched {
  readonly client: TestEnvironment['server']['client'];
  readonly space: TestSpace;
  readonly seen: Moments;
  readonly admission: Awaited<ReturnType<typeof guard>>;
}

/** Runs one round, in which the RuntimeClass is deleted and created again. */
async function closeAndOpen({ client, space, seen, admission }: Watched, samples: Samples): Promise<void> {
  const { runtimeClass: name, handler } = space.names;
  seen.forget();
  await admission.open();
  const last = admission.untilRefused();
  await client.call({ method: 'DELETE', path: pathOf(kinds.RUNTIME_CLASS, undefined, name), body: {} });
  const lost = await seen.reached('class DELETED');
  samples.closes.push((await seen.reached('gate False')) - lost);
  samples.admits.push(Math.max(0, (await last) - lost));
  samples.told.push((await seen.reached('all False')) - lost);
  seen.forget();
  await client.call({
    method: 'POST',
    path: pathOf(kinds.RUNTIME_CLASS),
    body: { metadata: { name }, handler },
  });
  const found = await seen.reached('class ADDED');
  samples.opens.push((await seen.reached('gate True')) - found);
  samples.resumed.push((await seen.reached('all True')) - found);
}

function reportOf(size: Size, samples: Samples): Report {
  const row = (what: string, values: readonly number[]): Row => ({
    'from the change until': what,
    'p50 ms': Math.round(quantile(values, 0.5)),
    'p99 ms': Math.round(quantile(values, 0.99)),
    'max ms': Math.round(Math.max(...values)),
  });
  return {
    title: `Effect of a lost and a restored RuntimeClass, with ${size.capsules} Capsules and ${size.assistants} Assistants, ${size.rounds} rounds`,
    rows: [
      row('the operator schedules nothing any more', samples.closes),
      row('admission let in the last pod', samples.admits),
      row('SandboxReady of every Capsule and Assistant is False', samples.told),
      row('the operator schedules again', samples.opens),
      row('SandboxReady of all of them is True again', samples.resumed),
    ],
    figures: {
      rounds: size.rounds,
      closes_p99_ms: Math.round(quantile(samples.closes, 0.99)),
      admits_p99_ms: Math.round(quantile(samples.admits, 0.99)),
      told_p99_ms: Math.round(quantile(samples.told, 0.99)),
      opens_p99_ms: Math.round(quantile(samples.opens, 0.99)),
      resumed_p99_ms: Math.round(quantile(samples.resumed, 0.99)),
    },
    notes: [
      'Times begin when a watch of the benchmark delivered the change. A negative time means that the operator’s own watch delivered it earlier.',
    ],
  };
}

/** Installs the chart's admission policies, to be tested in a Capsule's namespace with the pod that the operator creates. */
async function guard({ server: { client } }: TestEnvironment, space: TestSpace) {
  const { runtimeClass, attesterImage, space: name } = space.names;
  const helm = await findTool('helm', '.space/bench');
  const settings = { 'sandbox.runtimeClass': runtimeClass, 'sandbox.attester.image': attesterImage };
  const namespace = await space.settled();
  const deployment = await space.get<kinds.Deployment>(kinds.DEPLOYMENT, 'ledger', namespace);
  const body = { metadata: { name: 'judged' }, spec: deployment?.spec?.template.spec };
  for (const { path, object } of await sandboxPolicies(helm, name, settings))
    await client.call({ method: 'POST', path, body: object });
  /** Whether the pod would be admitted; nothing is stored. */
  const admitted = (pod: object) =>
    client
      .call({ method: 'POST', path: pathOf(kinds.POD, namespace), query: { dryRun: 'All' }, body: pod })
      .then(
        () => true,
        (error: unknown) => {
          if (error instanceof ApiError && (error.status === 403 || error.status === 422)) return false;
          throw error;
        },
      );
  const bare = { ...body, spec: { ...body.spec, initContainers: [] } };
  await eventually(async () => !(await admitted(bare)) && (await admitted(body)), {
    what: 'the admission policies to take effect',
  });
  return {
    open: () => eventually(() => admitted(body), { what: 'admission to let pods in' }),
    /** Repeats the request until the pod is refused for good; returns the time of the last admission. */
    async untilRefused(): Promise<number> {
      let last = Number.NEGATIVE_INFINITY;
      for (let refusals = 0; refusals < REFUSALS; refusals += 1) {
        if (!(await admitted(body))) continue;
        last = performance.now();
        refusals = -1;
      }
      return last;
    },
  };
}

interface WatchEvent {
  readonly type: string;
  readonly object: Conditioned;
}

async function watch(
  { server }: TestEnvironment,
  resource: Resource,
  namespace: string | undefined,
  signal: AbortSignal,
  see: (event: WatchEvent) => void,
): Promise<void> {
  try {
    const lines = await server.client.lines({
      method: 'GET',
      path: pathOf(resource, namespace),
      query: { watch: 'true' },
      signal,
      inactivityMs: 10 * 60_000,
    });
    for await (const line of lines) see(JSON.parse(line) as WatchEvent);
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** Records the first time of each event since the last `forget`. */
class Moments {
  readonly #seen = new Map<string, number>();
  readonly #events = new EventTarget();

  note(event: string): void {
    if (this.#seen.has(event)) return;
    this.#seen.set(event, performance.now());
    this.#events.dispatchEvent(new Event(event));
  }

  forget(): void {
    this.#seen.clear();
  }

  async reached(event: string): Promise<number> {
    if (!this.#seen.has(event)) await once(this.#events, event, { signal: AbortSignal.timeout(LIMIT_MS) });
    return this.#seen.get(event) ?? Number.NaN;
  }
}
