/**
 * Checks a backup before anything of a Space is created from it, by pods in a namespace of their own, since the
 * bucket may be reachable only from the cluster. The namespace is deleted with them, or by the next check if this one
 * is killed.
 */
import { randomBytes } from 'node:crypto';
import type { KubeObject } from '../../space/kube-object.ts';
import { fetchedState } from '../fetched.ts';
import { phaseOf } from '../fill.ts';
import type { Restore } from '../model.ts';
import { outputOf, placeOf } from '../place.ts';
import {
  authorities,
  bucketBackupPod,
  databaseBackupPod,
  destination,
  knownTo,
  type Rendered,
  statefulSet,
  statePod,
} from '../pods.ts';
import { RestoreProblem } from '../problem.ts';
import { merge, type State } from '../state.ts';
import { requireDatabase } from './log.ts';
import { refuseMissingServers } from './servers.ts';

export interface States {
  readonly then: State;
  readonly newest: State;
}

/** The label of a namespace that a check creates for itself, with the Space that it is for. */
const ROOM = 'platform.space/restore-room';

/** @throws RestoreProblem for every known reason why the Space cannot be restored from the backup */
export async function checkBackup(about: Restore, objects: Rendered, isBegun: boolean): Promise<States> {
  const { kube, space, steps } = about;
  // The namespace holds the key of the backup's bucket, so one that a killed check has left is deleted.
  const { code, stderr } = await kube.run(['delete', 'namespace', '-l', `${ROOM}=${space}`, '--wait=false']);
  if (code !== 0)
    throw new RestoreProblem(`the namespace of an earlier check could not be deleted: ${stderr.trim()}`);
  const room = `${space}-restore-${randomBytes(3).toString('hex')}`;
  try {
    const states = await steps.run('decrypt the state', () => openStates(about, objects, room));
    refuseMissingServers(states.then, objects);
    // If an interrupted restore is continued, its copies were checked then.
    if (!isBegun) await steps.run('check the copies', () => requireCopies(about, objects, room, states));
    return states;
  } finally {
    await kube.remove('namespace', room);
  }
}

const inside = (room: string, object: KubeObject): KubeObject => ({
  ...object,
  metadata: { ...object.metadata, namespace: room },
});

async function openStates(about: Restore, objects: Rendered, room: string): Promise<States> {
  const { kube, space, at } = about;
  const labels = { 'pod-security.kubernetes.io/enforce': 'restricted', [ROOM]: space };
  const pod = inside(room, statePod(objects));
  await kube.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: room, labels } });
  await kube.apply(
    ...authorities(objects).map((one) => inside(room, one)),
    destination(about, objects, room),
    pod,
  );
  await phaseOf(about, pod, ['Running']);
  const place = placeOf(kube, pod);
  const newest = await fetchedState(place, about, undefined, knownTo(objects));
  const then = at === undefined ? newest : await fetchedState(place, about, at, knownTo(objects));
  return { then, newest };
}

async function requireCopies(about: Restore, objects: Rendered, room: string, states: States): Promise<void> {
  const { kube, at } = about;
  const [database, bucket] = [databaseBackupPod(objects), bucketBackupPod(objects)].map(
    (pod) => pod && inside(room, pod),
  );
  const pods = [database, bucket].filter((pod) => pod !== undefined);
  await kube.apply(...secretsFor(pods, states, about, objects).map((one) => inside(room, one)), ...pods);
  for (const pod of pods) await phaseOf(about, pod, ['Running']);
  await Promise.all([
    database && requireDatabase(placeOf(kube, database), at),
    bucket && requireBucket(about, objects, bucket),
  ]);
}

async function requireBucket({ kube, at }: Restore, objects: Rendered, pod: KubeObject): Promise<void> {
  // The Space's own server is created with its bucket, which is empty then.
  const target = statefulSet(objects, 's3') === undefined ? ['--bucket'] : [];
  const moment = at === undefined ? [] : ['--at', at];
  await outputOf(placeOf(kube, pod), ['node', '/app/backup.mjs', 'check', ...moment, ...target]);
}

/**
 * The Secrets of the state that the pods mount, without labels and annotations, so that nothing else recognises them
 * there.
 */
function secretsFor(
  pods: readonly KubeObject[],
  { then, newest }: States,
  about: Restore,
  objects: Rendered,
): readonly KubeObject[] {
  const given = destination(about, objects, '').metadata.name;
  const volumes: readonly { readonly secret?: { readonly secretName: string } }[] = pods.flatMap(
    ({ spec }) => spec.volumes,
  );
  const names = new Set(volumes.flatMap(({ secret }) => secret?.secretName ?? []));
  const found = merge(then, newest).filter(
    ({ kind, metadata }) => kind === 'Secret' && metadata.namespace === newest.namespaces.services,
  );
  return [...names]
    .filter((name) => name !== given)
    .map((name) => {
      const secret = found.find(({ metadata }) => metadata.name === name);
      if (secret === undefined)
        throw new RestoreProblem(
          `the state of ${newest.taken} has no Secret ${name}, which is needed to decrypt the backup: choose an earlier state, with --at. Nothing was changed`,
        );
      return { ...secret, metadata: { name } };
    });
}
