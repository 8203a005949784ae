import type { DatabaseBroker } from '../brokers/database.ts';
import { isForbidden, isRefusal, missingPrincipal, principalFinding } from '../brokers/findings.ts';
import type { ObjectStoreBroker } from '../brokers/objects.ts';
import { principalOf } from '../capsule/principal.ts';
import type { Finding } from '../conditions.ts';
import { type Context, readSecret } from '../context.ts';
import { ASSISTANT, type SecretObject } from '../kinds.ts';
import { objectPrincipalSecretName, principalSecretName } from '../names.ts';
import { makeKey } from '../runtime/kube-object.ts';
import type { Fate } from './fate.ts';
import type { Leaving } from './identity.ts';
import { lockingFiles } from './retain.ts';

/** Calls to the brokers when an Assistant ends, and the Events about their results. */

/** Why a deletion does not go on, and the error with which it is tried again. */
export interface Blocked {
  readonly finding: Finding;
  readonly cause: unknown;
}

type Kept = 'all' | 'files' | 'nothing' | 'left to its Capsule';

/** Drops the data of an Assistant, or locks what is kept of it. */
export async function settleData(
  context: Context,
  leaving: Leaving,
  { token, retained, grace }: Fate & { readonly token: SecretObject | undefined },
  signal: AbortSignal,
): Promise<Blocked | Kept> {
  const { objectStore } = context;
  if (!retained && !grace) {
    const blocked =
      (await dropDatabase(context, leaving, signal)) ??
      (objectStore && (await dropObjects(context, objectStore, leaving, signal)));
    if (!blocked) return 'nothing';
    // The drop of the whole Capsule includes this data, and does not end while a broker that refuses the Capsule's
    // principal has any.
    return isForbidden(blocked.cause) && isCapsuleGoing(context, leaving) ? 'left to its Capsule' : blocked;
  }
  const blocked =
    token && objectStore && (await dropObjects(context, lockingFiles(objectStore), leaving, signal));
  return blocked ?? (grace ? 'all' : whatIsLeft(context, leaving, signal));
}

function isCapsuleGoing({ stores, names }: Context, { assistant }: Leaving): boolean {
  const { metadata } = stores.capsules.get(makeKey(names.namespace, assistant.spec.capsule)) ?? {};
  return metadata?.deletionTimestamp !== undefined;
}

/**
 * Finds out what is kept. `Retain` may be set after a drop was sent whose answer was lost, so only the broker knows
 * what is left.
 */
async function whatIsLeft(
  context: Context,
  { assistant, id }: Leaving,
  signal: AbortSignal,
): Promise<Blocked | Kept> {
  const { metadata, spec } = assistant;
  const { capsule } = spec;
  // Without a deletion, no drop was ever sent.
  if (metadata.deletionTimestamp === undefined) return 'all';
  const name = principalSecretName(capsule);
  const principal = await readSecret(context, context.names.systemNamespace, name, signal);
  if (!principal) return 'all';
  try {
    await context.database.appUsage(capsule, id, principalOf(principal), signal);
    return 'all';
  } catch (error) {
    if (isRefusal(error, 404)) return context.objectStore ? 'files' : 'nothing';
    // The broker also dropped nothing if the operator has no authority over the Capsule.
    if (isForbidden(error)) return 'all';
    return blockedBy(context, { capsule, principal }, error);
  }
}

/** Records an Event about the data. `asked` says that all of it was to be kept. */
export function tellEnd(
  { events, objectStore }: Context,
  { assistant, id }: Leaving,
  { asked, kept }: { readonly asked: boolean; readonly kept: Kept },
): void {
  // The Capsule's own Events report what becomes of it.
  if (kept === 'left to its Capsule') return;
  const what = objectStore ? 'database, its role and its files' : 'database and its role';
  const next = `are kept for the next Assistant with the id "${id}" in this Capsule.`;
  const late = 'Its database does not exist: the request to keep it came too late, or it was never created.';
  const dropped = asked ? late : `Its ${what} are dropped.`;
  const note = {
    all: `Its ${what} ${next}`,
    files: `${late} Its files ${next}`,
    nothing: dropped,
  }[kept];
  const [reason, action] = kept === 'all' ? ['DatabaseRetained', 'Retain'] : ['DatabaseDropped', 'Drop'];
  events.record(ASSISTANT, assistant, { type: 'Normal', reason, action, note });
}

async function dropDatabase(
  context: Context,
  { assistant, id }: Leaving,
  signal: AbortSignal,
): Promise<Blocked | undefined> {
  const { capsule } = assistant.spec;
  const name = principalSecretName(capsule);
  const principal = await readSecret(context, context.names.systemNamespace, name, signal);
  if (principal) return dropApp(context, context.database, { capsule, id, principal }, signal);
  // If the Capsule is gone, nothing can authorise the call, and there is nothing left to drop.
  return context.stores.capsules.get(makeKey(context.names.namespace, capsule))
    ? lost(context, capsule, name)
    : undefined;
}

/** Drops the objects. An Assistant that was never registered has no principal to drop them with. */
async function dropObjects(
  context: Context,
  broker: Pick<ObjectStoreBroker, 'dropApp'>,
  { assistant, id }: Leaving,
  signal: AbortSignal,
): Promise<Blocked | undefined> {
  const { capsule } = assistant.spec;
  const name = objectPrincipalSecretName(capsule);
  const principal = await readSecret(context, context.names.systemNamespace, name, signal);
  if (principal) return dropApp(context, broker, { capsule, id, principal }, signal);
  const { conditions, usage } = assistant.status ?? {};
  // A grant is only missing where the Assistant is registered.
  const had =
    usage?.storage !== undefined ||
    conditions?.some(
      ({ type, status, reason }) =>
        type === 'ObjectStoreReady' && (status === 'True' || reason === 'GrantKeyUnusable'),
    );
  const left = context.stores.capsules.get(makeKey(context.names.namespace, capsule));
  return had && left ? lost(context, capsule, name) : undefined;
}

async function dropApp(
  context: Context,
  broker: Pick<DatabaseBroker, 'dropApp'>,
  {
    capsule,
    id,
    principal,
  }: { readonly capsule: string; readonly id: string; readonly principal: SecretObject },
  signal: AbortSignal,
): Promise<Blocked | undefined> {
  try {
    await broker.dropApp(capsule, id, principalOf(principal), signal);
    return undefined;
  } catch (error) {
    // The database was never created, or an earlier attempt dropped it and its answer was lost.
    return isRefusal(error, 404) ? undefined : blockedBy(context, { capsule, principal }, error);
  }
}

function blockedBy(
  { names }: Context,
  { capsule, principal }: { readonly capsule: string; readonly principal: SecretObject },
  error: unknown,
): Blocked {
  const finding = principalFinding(error, { names, capsule, secretName: principal.metadata.name });
  if (!finding) throw error;
  return { finding, cause: error };
}

function lost({ names }: Context, capsule: string, secretName: string): Blocked {
  const finding = missingPrincipal({ names, capsule, secretName });
  return { finding, cause: new Error('a principal is missing') };
}
