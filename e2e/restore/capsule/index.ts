/**
 * Restores one Capsule from the backup into a running Space, under its own name or another, as it was at a moment.
 */

import { operatorOf } from '../../space/servers.ts';
import { refuseFuture } from '../copies.ts';
import { phaseOf, removePod } from '../fill.ts';
import { type Place, placeOf } from '../place.ts';
import { knownTo, type Rendered } from '../pods.ts';
import { RestoreProblem } from '../problem.ts';
import { fillPlaces } from './fill-places.ts';
import { notRestored } from './missing.ts';
import { type CapsuleRestore, namespacesOf, type Places } from './model.ts';
import { reachMoment } from './moment.ts';
import { applyTenant, letStart, refuseTaken } from './objects.ts';
import { addressesIn, type TemporaryObjects, temporaryObjects } from './pods.ts';
import { awaitReady, awaitResources } from './resources.ts';
import { type Tenant, withoutSuspend } from './tenant.ts';

export interface RestoredCapsule {
  readonly capsule: string;
  readonly from: string;
  /** The time of the state that Capsule and Assistants come from. */
  readonly state: string;
  /** What the database reports about the moment that it reached. */
  readonly database: string;
  readonly databases: number;
  /** Hosts of the PostgreSQL servers that the databases are on. */
  readonly servers: readonly string[];
  readonly objects: object | undefined;
  readonly assistants: number;
  /** Assistants that wait for a person, and for what. */
  readonly waiting: readonly string[];
  readonly notRestored: readonly string[];
  readonly seconds: Readonly<Record<string, number>>;
}

const markOf = ({ capsule, at }: CapsuleRestore) => `${capsule} as of ${at ?? 'the end of the backup'}`;

/** The next run continues one that was interrupted at any point. */
export async function restoreCapsule(about: CapsuleRestore): Promise<RestoredCapsule> {
  const { kube, steps, as, at, now } = about;
  const namespaces = namespacesOf(about);
  const live = await steps.run('read the Space', () => living(about));
  const room = temporaryObjects(as, live);
  const addresses = addressesIn(about.space, live);
  refuseFuture(at, now());
  const isBegun = await refuseTaken(kube, namespaces, as, markOf(about));
  try {
    const places = await steps.run('start the pods of the restore', () => open(about, room));
    const before = now();
    const then = await reachMoment(about, knownTo(live), places, isBegun);
    const reached = now();
    const made = await steps.run(`create Capsule ${as}`, async (step) => {
      await applyTenant(kube, asleep(then.tenant), markOf(about));
      return awaitResources({ ...about, namespaces, addresses }, places.server, then.tenant, step);
    });
    const furnishedAt = now();
    const { loaded, objects } = await fillPlaces(about, places, then, made);
    const filled = now();
    await letStart(kube, then.tenant);
    const waiting = await steps.run('wait for its Assistants', (step) =>
      awaitReady({ ...about, namespaces }, then.tenant, step),
    );
    const seconds = (from: number, to: number) => Math.round((to - from) / 100) / 10;
    return {
      capsule: as,
      from: about.capsule,
      state: then.taken,
      database: then.reached,
      databases: loaded,
      servers: [...new Set([...made.databases.values()].map(({ host }) => host))],
      objects,
      assistants: then.tenant.assistants.length,
      waiting,
      notRestored: notRestored({ ...then, at, notice: objects?.notice }),
      seconds: {
        backup: seconds(before, reached),
        places: seconds(reached, furnishedAt),
        data: seconds(furnishedAt, filled),
        pods: seconds(filled, now()),
      },
    };
  } finally {
    await close(about, room);
  }
}

const asleep = ({ capsule, assistants, inputs }: Tenant): Tenant => ({
  capsule: withoutSuspend(capsule),
  assistants: assistants.map(withoutSuspend),
  inputs,
});

/** The running objects from which the pods of a restore are made. */
async function living({ kube, space, namespace }: CapsuleRestore): Promise<Rendered> {
  const [services, system] = [`${space}-services`, `${space}-system`];
  const found = await Promise.all([
    ...[
      ['cronjob', 'backup'],
      ['statefulset', 'postgres'],
      ['service', 'postgres'],
      ['networkpolicy', 'postgres'],
      ['networkpolicy', 'db-broker'],
      ['statefulset', 's3'],
      ['deployment', 'db-broker'],
    ].map(([kind = '', name = '']) => kube.get(kind, name, services)),
    kube.get('deployment', operatorOf(space), system),
  ]);
  if (found.every((one) => one === undefined))
    throw new RestoreProblem(
      `no Space ${space} with Capsules in the namespace ${namespace} runs in this cluster: name another with --space and --namespace, or restore a whole Space, without --capsule`,
    );
  return found.filter((one) => one !== undefined);
}

async function open(about: CapsuleRestore, { policies, ...pods }: TemporaryObjects): Promise<Places> {
  const { kube } = about;
  const { scratch, loader, objects } = pods;
  const all = [scratch, loader, objects];
  await Promise.all(all.map((pod) => removePod(kube, pod)));
  await kube.apply(...policies, ...all);
  for (const pod of all)
    if ((await phaseOf(about, pod, ['Running', 'Failed', 'Succeeded'])) !== 'Running')
      throw new RestoreProblem(`pod ${pod.metadata.name} does not run. Nothing was changed`);
  const [loaderPlace, objectsPlace, scratchPlace] = [loader, objects, scratch].map((pod) =>
    placeOf(kube, pod),
  ) as [Place, Place, Place];
  const server = { kube, namespace: scratchPlace.namespace, pod: 'postgres-0', container: 'postgres' };
  return { server, scratch: scratchPlace, loader: loaderPlace, objects: objectsPlace };
}

async function close(
  { kube }: CapsuleRestore,
  { policies, scratch, loader, objects }: TemporaryObjects,
): Promise<void> {
  for (const { kind, metadata } of [scratch, loader, objects, ...policies])
    await kube.remove(kind, metadata.name, metadata.namespace);
}
