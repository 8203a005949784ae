import type { Secret } from '@space/contracts/secret';
import type { DatabaseBroker } from '../brokers/database.ts';
import { brokerFinding, isForbidden, isRefusal } from '../brokers/findings.ts';
import type { Finding } from '../conditions.ts';
import { type Context, readSecret } from '../context.ts';
import { CAPSULE, type Capsule, SECRET, type SecretObject } from '../kinds.ts';
import { ANNOTATION, LABEL, objectPrincipalSecretName, principalSecretName } from '../names.ts';
import { mustRelease, ownPrincipal, releaseOf } from './fate.ts';
import { principalOf } from './principal.ts';

/** The data of a Capsule at one broker, and the principal that authorises its drop, if it is this Capsule's own. */
export interface BrokerData {
  /** The condition that is True in the Capsule's status once the broker had any data. */
  readonly condition: 'DatabaseReady' | 'ObjectStoreReady';
  readonly broker: Pick<DatabaseBroker, 'drop' | 'finalize'>;
  /** A call without effect, which the broker refuses if the principal is no longer valid. */
  readonly ask: (principal: Secret, signal: AbortSignal) => Promise<unknown>;
  readonly secret: SecretObject | undefined;
}

export interface Blocked {
  readonly finding: Finding;
  readonly cause: unknown;
}

/** What became of the data; unknown if the principal is missing. */
export interface Settled extends Pick<BrokerData, 'condition' | 'secret'> {
  readonly outcome: 'kept' | 'dropped' | 'lost';
}

export async function readBrokerData(
  context: Context,
  capsule: Capsule,
  signal: AbortSignal,
): Promise<BrokerData[]> {
  const { name } = capsule.metadata;
  const { database, objectStore } = context;
  const read = async (secretName: string, about: Omit<BrokerData, 'secret'>): Promise<BrokerData> => {
    const secret = await readSecret(context, context.names.systemNamespace, secretName, signal);
    return { ...about, secret: ownPrincipal(capsule, secret) };
  };
  return Promise.all([
    read(principalSecretName(name), {
      condition: 'DatabaseReady',
      broker: database,
      // The name of the workload does not matter: the call only tests whether the principal is valid.
      ask: (principal, asking) => database.appUsage(name, name, principal, asking).catch(ignore(404)),
    }),
    ...(objectStore
      ? [
          read(objectPrincipalSecretName(name), {
            condition: 'ObjectStoreReady',
            broker: objectStore,
            ask: (principal, asking) => objectStore.usage(name, principal, asking),
          }),
        ]
      : []),
  ]);
}

/** Keeps the data at one broker, as far as it still exists, or has it dropped. */
export async function settle(
  context: Context,
  capsule: Capsule,
  { retain, ...data }: BrokerData & { readonly retain: boolean },
  signal: AbortSignal,
): Promise<Settled | Blocked> {
  const { condition, secret } = data;
  const settled = (outcome: Settled['outcome']): Settled => ({ condition, secret, outcome });
  try {
    if (retain) {
      if (!secret) return settled(mustRelease(capsule, condition, secret) ? 'lost' : 'kept');
      if (await isThere(secret, data, signal)) return settled('kept');
    }
    await release(context, capsule, data, signal);
    return settled('dropped');
  } catch (error) {
    const { name } = capsule.metadata;
    const secretName = secret?.metadata.name;
    const principal =
      secretName === undefined ? undefined : { names: context.names, capsule: name, secretName };
    const finding = brokerFinding(error, principal);
    if (!finding) throw error;
    context.events.record(CAPSULE, capsule, {
      type: 'Warning',
      reason: 'FinalizationBlocked',
      action: 'Finalize',
      note: finding.message,
    });
    return { finding, cause: error };
  }
}

/**
 * Whether the data still exists. `Retain` may be set after a drop was sent whose answer was lost, so only the broker
 * knows.
 */
async function isThere(secret: SecretObject, { ask }: BrokerData, signal: AbortSignal): Promise<boolean> {
  const released = releaseOf(secret);
  if (released !== 'begun') return released === 'not begun';
  try {
    await ask(principalOf(secret), signal);
    return true;
  } catch (error) {
    if (isForbidden(error)) return false;
    throw error;
  }
}

/** Drops the data, then releases the id. Answers that say that this was done before count as success. */
async function release(
  context: Context,
  capsule: Capsule,
  { condition, broker, secret: found }: BrokerData,
  signal: AbortSignal,
): Promise<void> {
  const { name } = capsule.metadata;
  if (!mustRelease(capsule, condition, found)) return;
  let secret = found;
  if (secret) {
    if (releaseOf(secret) === 'not begun') secret = await mark(context, secret, 'begun', signal);
    await broker.drop(name, principalOf(secret), signal).catch(ignore(403));
  }
  await broker.finalize(name, signal).catch(ignore(404));
  // The namespace may take long to go; until then the broker is not called again.
  if (secret) await mark(context, secret, 'true', signal);
}

/**
 * Writes only over the version that was read: on the principal of a later Capsule, this mark would prevent the drop of
 * that Capsule's data.
 */
function mark(context: Context, secret: SecretObject, finalized: 'begun' | 'true', signal: AbortSignal) {
  const { resourceVersion } = secret.metadata;
  const metadata = { resourceVersion, annotations: { [ANNOTATION.finalized]: finalized } };
  return context.writer.merge<SecretObject>(SECRET, secret, { metadata }, signal);
}

/** Deletes the principal whose data is dropped, or keeps it for the next Capsule of the name. */
export async function endPrincipal(
  { writer }: Context,
  { secret, outcome }: Settled,
  signal: AbortSignal,
): Promise<void> {
  if (!secret) return;
  const { resourceVersion, labels } = secret.metadata;
  if (outcome !== 'kept') return writer.remove(SECRET, secret, signal);
  if (labels?.[LABEL.retained] === 'true') return;
  // Written only over the version that was read: the principal of a later Capsule must not become available to the next
  // one.
  const metadata = { resourceVersion, labels: { [LABEL.retained]: 'true' } };
  await writer.merge(SECRET, secret, { metadata }, signal);
}

/**
 * Makes errors of this status count as success: a retired principal is refused with 403, and `finalize` then reports
 * what is left.
 */
function ignore(status: number) {
  return (error: unknown) => {
    if (!isRefusal(error, status)) throw error;
  };
}
