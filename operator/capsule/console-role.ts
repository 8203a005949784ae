import { isTrue } from '../conditions.ts';
import type { Context } from '../context.ts';
import { type Capsule, ROLE, type Role } from '../kinds.ts';
import { objectPrincipalSecretName } from '../names.ts';
import type { Desired } from '../runtime/apply.ts';
import type { Result } from '../runtime/controller.ts';
import type { Key } from '../runtime/kube-object.ts';
import { decideName } from './decide.ts';

/**
 * Keeps the Role by which the console reads principals for the object store. The chart makes it without a rule and leaves
 * its rules alone; the operator writes the names of the Capsules' Secrets there, and nothing else.
 */
export async function reconcileConsoleRole(
  { stores, writer }: Context,
  key: Key,
  signal: AbortSignal,
): Promise<Result> {
  const live = stores.roles.get(key);
  if (live) await writer.apply(ROLE, roleObject(live, stores.capsules.list()), live, signal);
  return {};
}

/** Tells which Capsules' principals the console may read: all, if there is no Role because there is no console. */
export function readableIn(role: Role | undefined): (capsule: Capsule) => boolean {
  if (!role) return () => true;
  const names = new Set(role.rules?.flatMap(({ resourceNames = [] }) => resourceNames));
  return ({ metadata }) => names.has(objectPrincipalSecretName(metadata.name));
}

function roleObject({ metadata }: Role, capsules: readonly Capsule[]): Desired {
  const { name, namespace = '', uid = '' } = metadata;
  const resourceNames = capsules
    .filter(isToBeRead)
    .map(({ metadata }) => objectPrincipalSecretName(metadata.name))
    .toSorted();
  const rule = { apiGroups: [''], resources: ['secrets'], resourceNames, verbs: ['get'] };
  // A rule without names would be one for every Secret.
  return { metadata: { name, namespace, uid }, rules: resourceNames.length === 0 ? [] : [rule] };
}

/** A principal is named before it is made, so that it can be read once the Capsule is ready; one that is another's is not. */
function isToBeRead({ metadata, status }: Capsule): boolean {
  return (
    metadata.deletionTimestamp === undefined &&
    isTrue(decideName(metadata.name)) &&
    !status?.conditions?.some(
      ({ type, reason }) => type === 'ObjectStoreReady' && reason === 'PrincipalConflict',
    )
  );
}
