/**
 * A drill tries a backup while the Space that it is of goes on elsewhere. What is restored must neither write into that Space's
 * backup, nor use its servers, nor act in the world a second time.
 */
import type { KubeObject } from '../space/kube-object.ts';
import { RESTORING } from './marks.ts';
import { type Rendered, statefulSet } from './pods.ts';
import { RestoreProblem } from './problem.ts';

/** Helm's arguments after the values of the lost Space. */
export const DRILL_VALUES: readonly string[] = ['--set', 'backup.enabled=false'];

/** A sentence about what a drill leaves out. */
export const DRILL_LEAVES_OUT =
  'this is a drill: the Space makes no backup, and starts no Assistant (to start those of one Capsule, which then reach their hosts and use their stored inputs, remove its annotation platform.space/restoring)';

/** Refuses values by which the restored Space would use servers of the running one. */
export function requireServersOfItsOwn(objects: Rendered): void {
  const has = (kind: string, name: string) =>
    objects.some((one) => one.kind === kind && one.metadata.name === name);
  const shared = [
    ...(statefulSet(objects, 'postgres') === undefined ? ['postgres.external'] : []),
    ...(has('ConfigMap', 'db-servers') ? ['postgres.servers'] : []),
    ...(has('Deployment', 'objectstore-broker') && statefulSet(objects, 's3') === undefined
      ? ['objectStore.external']
      : []),
  ];
  if (shared.length > 0)
    throw new RestoreProblem(
      `--drill: the values name servers that the running Space uses (${shared.join(', ')}), whose data the drill would change. Give values without them, or with other servers`,
    );
}

/** Marks Capsules so that their Assistants get databases and files, but no pods. */
export const asDrill = (found: readonly KubeObject[]): readonly KubeObject[] =>
  found.map((object) =>
    object.kind === 'Capsule'
      ? {
          ...object,
          metadata: {
            ...object.metadata,
            annotations: { ...object.metadata.annotations, [RESTORING]: 'a drill' },
          },
        }
      : object,
  );
