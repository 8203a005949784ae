import { type Finding, no, yes } from '../../conditions.ts';
import type { Context } from '../../context.ts';
import {
  CAPSULE,
  type Capsule,
  LIMIT_RANGE,
  NAMESPACE,
  type Namespace,
  NETWORK_POLICY,
  RESOURCE_QUOTA,
  ROLE_BINDING,
} from '../../kinds.ts';
import { requireAlive } from '../../last-word.ts';
import { CAPSULE_FINALIZER, capsuleNamespace, secretsRoleName } from '../../names.ts';
import { asRefused, quoted, type Refused } from '../../refusals.ts';
import type { Applied, Desired } from '../../runtime/apply.ts';
import { isAlreadyExists, WriteRefusedError } from '../../runtime/errors.ts';
import { type KubeObject, makeKey, pathOf, type Resource } from '../../runtime/kube-object.ts';
import type { Store } from '../../runtime/store.ts';
import { together } from '../../runtime/together.ts';
import { decideNamespace, waitsFor } from '../decide.ts';
import {
  assistantsPolicyObject,
  defaultDenyObject,
  limitRangeObject,
  namespaceObject,
  quotaObject,
  secretsBindingObject,
} from '../guardrails.ts';

export interface Guardrails {
  readonly namespace: Finding;
  readonly network: Finding;
  /** Kinds of the objects that somebody had changed and the operator has restored. */
  readonly restored: readonly string[];
  /** A refused write, which is reported in a finding and retried. */
  readonly retry?: unknown;
}

/**
 * Ensures the namespace and everything that limits it. Changes by others are reverted, and a refused write does not
 * prevent the others.
 */
export async function ensureGuardrails(
  context: Context,
  capsule: Capsule,
  signal: AbortSignal,
): Promise<Guardrails> {
  const { names, identity, stores } = context;
  const namespace = await ensureNamespace(context, capsule, signal).catch(asRefused);
  if (namespace.finding.status !== 'True') {
    const retry = 'retry' in namespace ? namespace.retry : undefined;
    return { namespace: namespace.finding, network: waitsFor('NamespaceReady'), restored: [], retry };
  }
  const apply = async <T extends KubeObject>(resource: Resource, store: Store<T>, desired: Desired) => {
    const live = store.get(makeKey(desired.metadata.namespace, desired.metadata.name));
    return { kind: resource.kind, applied: await context.writer.apply(resource, desired, live, signal) };
  };
  const desiredBinding = secretsBindingObject(names, capsule, identity);
  const [bounds, walls, binding] = await together([
    together([
      apply(RESOURCE_QUOTA, stores.resourceQuotas, quotaObject(names, capsule)),
      apply(LIMIT_RANGE, stores.limitRanges, limitRangeObject(names, capsule)),
    ]).catch(invalidQuota),
    together([
      apply(NETWORK_POLICY, stores.networkPolicies, defaultDenyObject(names, capsule)),
      apply(NETWORK_POLICY, stores.networkPolicies, assistantsPolicyObject(names, capsule)),
    ]).catch(asRefused),
    replaceForeignBinding(context, desiredBinding, signal)
      .then(async () => [await apply(ROLE_BINDING, stores.roleBindings, desiredBinding)])
      .catch(asRefused),
  ]);
  const own = 'applied' in namespace ? [{ kind: 'Namespace', applied: namespace.applied }] : [];
  const results = [own, bounds, walls, binding].flatMap((one) => ('finding' in one ? [] : one));
  const [refused] = [bounds, binding].flatMap((one) => ('finding' in one ? one : []));
  return {
    namespace: refused?.finding ?? namespace.finding,
    network: 'finding' in walls ? walls.finding : context.network(),
    restored: results.filter(({ applied }) => applied === 'restored').map(({ kind }) => kind),
    retry: refused?.retry ?? ('finding' in walls ? walls.retry : undefined),
  };
}

/** The role of a RoleBinding is immutable, so a binding to another role is deleted first. */
async function replaceForeignBinding(context: Context, desired: Desired, signal: AbortSignal): Promise<void> {
  const live = context.stores.roleBindings.get(makeKey(desired.metadata.namespace, desired.metadata.name));
  if (!live || live.roleRef?.name === secretsRoleName(context.names.space)) return;
  await context.writer.remove(ROLE_BINDING, live, signal);
}

async function ensureNamespace(
  context: Context,
  capsule: Capsule,
  signal: AbortSignal,
): Promise<{ readonly finding: Finding; readonly applied: Applied }> {
  const { names, stores, writer } = context;
  const name = capsuleNamespace(names.space, capsule.metadata.name);
  const live = stores.namespaces.get(name);
  const verdict = decideNamespace(capsule, name, live);
  const desired = namespaceObject(names, capsule);
  const ready = inPlace(name);
  switch (verdict.act) {
    case 'refuse':
      return { finding: verdict.finding, applied: 'unchanged' };
    case 'keep': {
      // With the UID in it, the apply fails for another namespace of that name.
      const uid = live?.metadata.uid;
      const wish = uid === undefined ? desired : { ...desired, metadata: { ...desired.metadata, uid } };
      return { finding: ready, applied: await writer.apply(NAMESPACE, wish, live, signal) };
    }
    case 'create':
      await requireAlive(context, { resource: CAPSULE, name: CAPSULE_FINALIZER }, capsule, signal);
      try {
        await writer.create(NAMESPACE, writer.withDigest(desired), signal);
        return { finding: ready, applied: 'created' };
      } catch (error) {
        if (!isAlreadyExists(error)) throw error;
        return unlabelled(context, capsule, name, signal);
      }
  }
}

/** The namespace exists but is not in the store: it belongs to somebody else, or its labels were removed. */
async function unlabelled(
  context: Context,
  capsule: Capsule,
  name: string,
  signal: AbortSignal,
): Promise<{ readonly finding: Finding; readonly applied: Applied }> {
  const path = pathOf(NAMESPACE, undefined, name);
  const live = await context.client.call<Namespace>({ method: 'GET', path, signal });
  const desired = namespaceObject(context.names, capsule);
  const { uid, labels } = live.metadata;
  const named = {
    ...live,
    metadata: { ...live.metadata, labels: { ...labels, ...desired.metadata.labels } },
  };
  const verdict = decideNamespace(capsule, name, named);
  if (verdict.act === 'refuse' || uid === undefined) {
    return {
      finding: verdict.act === 'refuse' ? verdict.finding : waitsFor('NamespaceReady'),
      applied: 'unchanged',
    };
  }
  await context.writer.apply(NAMESPACE, { ...desired, metadata: { ...desired.metadata, uid } }, live, signal);
  return { finding: inPlace(name), applied: 'restored' };
}

const inPlace = (name: string): Finding =>
  yes('Ready', `Namespace "${name}" has its quota, limits and Pod Security.`);

/** Only the user can correct a quota that the API server rejects; any other refusal is retried. */
function invalidQuota(error: unknown): Refused {
  const { finding, retry } = asRefused(error);
  const invalid =
    error instanceof WriteRefusedError &&
    !error.byAdmission &&
    (error.status === 422 || error.status === 400);
  if (!invalid) return { finding, retry };
  return {
    finding: no('QuotaInvalid', `spec.quota is not accepted: ${quoted(error.said)}`),
    retry: undefined,
  };
}
