import { isTrue } from '../conditions.ts';
import type { Context } from '../context.ts';
import { type Capsule, ROLE, type Role } from '../kinds.ts';
import { objectPrincipalSecretName } from '../names.ts';
import type { Desired } from '../runtime/apply.ts';
import type { Result } from '../runtime/controller.ts';
import type { Key } from '../runtime/kube-object.ts';
import { decideName } from './decide.ts';

/**
 * Maintains the Role by which the console reads principals for the object store. The chart creates it without a rule;
 * the operator writes only the names of the Capsules' Secrets into it.
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

/**
 * Returns a test whether the console may read the principal of a Capsule. Without a Role there is no console, and every
 * Capsule passes.
 */
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
  // A rule without names would permit every Secret.
  return { metadata: { name, namespace, uid }, rules: resourceNames.length === 0 ? [] : [rule] };
}

/**
 * Whether the Role names the Capsule's principal. It is named before it is created, so that the console can read it
 * once the Capsule is ready; a Secret of somebody else is not named.
 */
function isToBeRead({ metadata, status }: Capsule): boolean {
  return (
    metadata.deletionTimestamp === undefined &&
    isTrue(decideName(metadata.name)) &&
    !status?.conditions?.some(
      ({ type, reason }) => type === 'ObjectStoreReady' && reason === 'PrincipalConflict',
    )
  );
}
