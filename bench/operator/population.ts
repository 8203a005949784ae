import { setMaxListeners } from 'node:events';
import type { Finding } from '../../operator/conditions.ts';
import * as kinds from '../../operator/kinds.ts';
import type { ApiClient } from '../../operator/runtime/client.ts';
import { systemClock } from '../../operator/runtime/clock.ts';
import { type KubeObject, pathOf, type Resource } from '../../operator/runtime/kube-object.ts';
import { Reflector } from '../../operator/runtime/reflector.ts';
import { Store } from '../../operator/runtime/store.ts';
import { manifest } from '../../operator/testing/manifest.ts';
import { IMAGE } from '../../operator/testing/space.ts';

const SIDE_BY_SIDE = 24;

export interface PopulationSize {
  readonly capsules: number;
  /** The number of all together, distributed evenly. */
  readonly assistants: number;
}

/** Creates Capsules and Assistants that are suspended from the start, so they are accepted and isolated but never provisioned. */
export async function createPopulation(
  client: ApiClient,
  namespace: string,
  size: PopulationSize,
): Promise<void> {
  const create = (resource: Resource, kind: string, name: string, spec: object) =>
    client.call({
      method: 'POST',
      path: pathOf(resource, namespace),
      body: { apiVersion: 'platform.space/v1', kind, metadata: { name }, spec: { ...spec, suspend: true } },
    });
  await inParallel(size.capsules, (i) => create(kinds.CAPSULE, 'Capsule', `c${i}`, {}));
  await inParallel(size.assistants, (i) => {
    const name = `a${i}`;
    const spec = { capsule: `c${i % size.capsules}`, image: IMAGE, manifest: manifest(name) };
    return create(kinds.ASSISTANT, 'Assistant', name, spec);
  });
}

async function inParallel(count: number, act: (i: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const worker = async () => {
    for (let i = next++; i < count; i = next++) await act(i);
  };
  await Promise.all(Array.from({ length: SIDE_BY_SIDE }, worker));
}

/** A store that is kept current by a watch of one kind. */
export interface Followed<T extends KubeObject> {
  readonly store: Store<T>;
  readonly synced: Promise<void>;
}

export function follow<T extends KubeObject>(
  client: ApiClient,
  resource: Resource,
  namespace: string,
  signal: AbortSignal,
): Followed<T> {
  const store = new Store<T>();
  setMaxListeners(0, signal);
  const reflector = new Reflector<T>({ client, clock: systemClock, resource, store, namespace });
  void reflector.run(signal);
  return { store, synced: reflector.synced };
}

const says = (object: kinds.Capsule | kinds.Assistant, type: string): Finding | undefined =>
  object.status?.conditions?.find((condition) => condition.type === type) as Finding | undefined;

/** Whether its namespace and guardrails exist, its Assistants are counted, and its status says that it is suspended. */
export function isSettledCapsule(capsule: kinds.Capsule, assistants: number): boolean {
  return (
    ['NamespaceReady', 'NetworkReady'].every((type) => says(capsule, type)?.status === 'True') &&
    says(capsule, 'DatabaseReady')?.reason === 'Suspended' &&
    capsule.status?.assistants?.total === assistants
  );
}

/** Whether it is accepted, its Capsule is ready, and its status says that it is suspended. */
export function isSettledAssistant(assistant: kinds.Assistant): boolean {
  return (
    ['Accepted', 'CapsuleReady'].every((type) => says(assistant, type)?.status === 'True') &&
    says(assistant, 'WorkloadReady')?.reason === 'Suspended'
  );
}
