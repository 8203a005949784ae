/**
 * Creates what a run needs in a Space for a minute: two Capsules with a prober each, and bystanders. It deletes all
 * of them afterwards.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Kube } from '../space/kube.ts';
import type { KubeObject } from '../space/kube-object.ts';
import type { Party } from './arrows.ts';
import { bystandersOf, MARK, OF_SPACE, type Place, strangerNamespace } from './bystanders.ts';
import { addressesOf, blocksOf, COMPONENT, type Discovered, type SourcePod } from './discover.ts';
import { PROBER, prober, storedInput } from './prober.ts';

export interface Probers {
  readonly capsules: readonly {
    readonly name: string;
    readonly namespace: string;
    readonly pod: KubeObject;
  }[];
  readonly sources: readonly SourcePod[];
}

/** The time limit of each wait, and the signal that ends all of them. */
export interface Patience {
  readonly seconds: number;
  readonly signal: AbortSignal;
}

/** Repeats the call until it has a result. `what` may be a function, since more may be known at the end. */
export async function wait<T>(
  what: string | (() => string),
  { seconds, signal }: Patience,
  ask: () => Promise<T | undefined>,
): Promise<T> {
  const end = performance.now() + seconds * 1000;
  for (;;) {
    signal.throwIfAborted();
    const answer = await ask();
    if (answer !== undefined) return answer;
    if (performance.now() > end)
      throw new Error(`waited ${seconds} s for ${typeof what === 'string' ? what : what()}`);
    await pause(300);
  }
}

const capsuleNames = ({ run }: Place) => ['a', 'b'].map((which) => `verify-${run}-${which}`);

export async function deployProbers(
  kube: Kube,
  place: Place,
  around: Discovered,
  firstLook: readonly string[],
  patience: Patience,
): Promise<Probers> {
  const image: string = around.pods.find((pod) => pod.metadata.labels?.[COMPONENT] === 'operator')?.['spec']
    .containers[0].image;
  const labels = { [MARK]: place.run };
  const stranger = { name: strangerNamespace(place), labels: { ...labels, [OF_SPACE]: place.space } };
  const names = capsuleNames(place);
  const bystanders = bystandersOf(place, around.picture, image);
  await kube.apply(
    { apiVersion: 'v1', kind: 'Namespace', metadata: stranger },
    ...names.map((name) => ({
      apiVersion: 'platform.space/v1',
      kind: 'Capsule',
      metadata: { name, namespace: place.namespace, labels },
      spec: { deletionPolicy: 'Drop' },
    })),
    ...names.map((name) => storedInput(place, name)),
    ...names.map((name) => prober(place, name, image, firstLook)),
    ...bystanders.map(({ pod }) => pod),
  );
  const capsules = await Promise.all(names.map((name) => proberIn(kube, place, name, patience)));
  const looking = await Promise.all(
    bystanders.map(async ({ name, party, pod: { metadata } }) => {
      let found: KubeObject | undefined;
      const running = await wait(
        () => `the pod ${metadata.name}; ${stateOf(found)}`,
        patience,
        async () => {
          found = await kube.get('pod', metadata.name, metadata.namespace);
          return found !== undefined && isUp(found) ? found : undefined;
        },
      );
      return { ...sourceOf(name, party, running), blocks: blocksOf(party, around.policies) };
    }),
  );
  const probers = capsules.map(({ pod }, i) => sourceOf(`Assistant ${'ab'[i]}`, 'assistant', pod));
  return { capsules, sources: [...probers, ...looking] };
}

/**
 * Whether its container runs. The phase alone is also Running while a container that could not start waits for its
 * next start.
 */
export const isUp = ({ status }: KubeObject): boolean =>
  status?.phase === 'Running' &&
  (status.containerStatuses ?? []).every(({ state }: Record<string, { running?: object }>) => state?.running);

/** What Kubernetes reports about a pod that does not run. */
export function stateOf(pod: KubeObject | undefined): string {
  if (pod === undefined) return 'it does not exist';
  const { phase = 'Pending', reason, message, conditions = [], containerStatuses = [] } = pod['status'] ?? {};
  const unmet = conditions.filter(({ status }: Record<string, string>) => status === 'False');
  const states = containerStatuses.map(({ state }: Record<string, object>) => JSON.stringify(state));
  const told = unmet.map(({ type, reason: why, message: text }: Record<string, string>) =>
    [type, why, text].filter(Boolean).join(' '),
  );
  return [`it is ${phase}`, reason, message, ...told, ...states].filter(Boolean).join('; ').slice(0, 600);
}

/**
 * The prober may not start because a network policy is known not to be enforced: then the operator starts no tenant
 * code.
 */
function proberIn(kube: Kube, place: Place, name: string, patience: Patience) {
  let why = '';
  const what = () => `the prober in ${name}${why}`;
  return wait(what, patience, async () => {
    const [assistant, capsule] = await Promise.all(
      ['assistant', 'capsule'].map((kind) => kube.get(kind, name, place.namespace)),
    );
    why = [capsule, assistant].map(refusalOf).find((one) => one !== '') ?? '';
    const namespace = capsule?.['status']?.namespace;
    if (why !== '' || namespace === undefined) return undefined;
    const pods = await kube.list('pods', namespace, `platform.space/assistant=${PROBER}`);
    const pod = pods.find(({ status }) => status?.phase === 'Running');
    return pod && { name, namespace, pod };
  });
}

function refusalOf(object: KubeObject | undefined): string {
  const conditions: readonly Record<string, string>[] = object?.['status']?.conditions ?? [];
  const ready = conditions.find(({ type }) => type === 'Ready');
  return ready?.['status'] === 'True'
    ? ''
    : `; ${ready?.['reason'] ?? 'Unknown'}: ${ready?.['message'] ?? 'it has no condition that says why'}`;
}

const sourceOf = (name: string, party: Party, pod: KubeObject): SourcePod => ({
  name,
  party,
  addresses: addressesOf(pod),
  blocks: [],
  pod,
});

/** Deletes what a run in this Space created, this one or all of them, and waits until it is gone. */
export async function deleteProbers(
  kube: Pick<Kube, 'run'>,
  { space, namespace, run }: Pick<Place, 'space' | 'namespace'> & { readonly run?: string },
  seconds: number,
): Promise<void> {
  const selector = run === undefined ? MARK : `${MARK}=${run}`;
  const remove = async (kinds: string, labels: string, ...where: readonly string[]) => {
    const args = ['delete', kinds, ...where, '-l', labels, '--ignore-not-found', `--timeout=${seconds}s`];
    const { code, stderr } = await kube.run(args);
    if (code !== 0)
      throw new Error(
        `some objects could not be deleted. Delete those with the label ${selector}: ${stderr.trim()}`,
      );
  };
  await Promise.all([
    remove('assistants.platform.space,capsules.platform.space,secrets', selector, '-n', namespace),
    ...[namespace, `${space}-system`, `${space}-services`].map((where) =>
      remove('pods', selector, '-n', where),
    ),
    // Another Space of the cluster may be measured at the same time.
    remove('namespaces', `${selector},${OF_SPACE}=${space}`),
  ]);
}
