import type { Secret } from '@space/contracts/secret';
import type { DatabaseBroker } from '../brokers/database.ts';
import { brokerFinding, isForbidden, isRefusal } from '../brokers/findings.ts';
import type { Finding } from '../conditions.ts';
import { type Context, readSecret } from '../context.ts';
import { CAPSULE, type Capsule, SECRET, type SecretObject } from '../kinds.ts';
import { ANNOTATION, LABEL, objectPrincipalSecretName, principalSecretName } from '../names.ts';
import { mustRelease, ownPrincipal, releaseOf } from './fate.ts';
import { principalOf } from './principal.ts';

/** What one broker keeps for a Capsule, and the principal that closes it, when it is this Capsule's own. */
export interface BrokerData {
  /** True in the Capsule's status once the broker had opened anything. */
  readonly condition: 'DatabaseReady' | 'ObjectStoreReady';
  readonly broker: Pick<DatabaseBroker, 'drop' | 'finalize'>;
  /** Changes nothing, and is refused to a principal that is in force no more. */
  readonly ask: (principal: Secret, signal: AbortSignal) => Promise<unknown>;
  readonly secret: SecretObject | undefined;
}

export interface Blocked {
  readonly finding: Finding;
  readonly cause: unknown;
}

/** What became of it. Without its principal nobody knows whether a broker still has what it is to keep. */
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
      // Any workload will do, existing or not: the request only tests the authority over the Capsule.
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

/** Keeps what one broker has, as far as it is there, or has it dropped. */
export async function settle(
  context: Context,
  capsule: Capsule,
  holding: BrokerData,
  retain: boolean,
  signal: AbortSignal,
): Promise<Settled | Blocked> {
  const { condition, secret } = holding;
  const settled = (outcome: Settled['outcome']): Settled => ({ condition, secret, outcome });
  try {
    if (retain) {
      if (!secret) return settled(mustRelease(capsule, condition, secret) ? 'lost' : 'kept');
      if (await isThere(secret, holding, signal)) return settled('kept');
    }
    await release(context, capsule, holding, signal);
    return settled('dropped');
  } catch (error) {
    const { name } = capsule.metadata;
    const secretName = secret?.metadata.name;
    const place = secretName === undefined ? undefined : { names: context.names, capsule: name, secretName };
    const finding = brokerFinding(error, place);
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

/** A word to keep may come when a drop was sent and its answer never seen: then only the broker knows. */
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

/** Drop, then finalize; what says that it was done before is as good as doing it. */
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
  // The namespace may take long to go: what is done with the broker is not done again meanwhile.
  if (secret) await mark(context, secret, 'true', signal);
}

/** Over what was seen: on the principal of a later Capsule it would keep that one's data from being dropped. */
function mark(context: Context, secret: SecretObject, finalized: 'begun' | 'true', signal: AbortSignal) {
  const { resourceVersion } = secret.metadata;
  const metadata = { resourceVersion, annotations: { [ANNOTATION.finalized]: finalized } };
  return context.writer.merge<SecretObject>(SECRET, secret, { metadata }, signal);
}

/** The principal goes with what it opened, or waits for the next Capsule of the name. */
export async function endPrincipal(
  { writer }: Context,
  { secret, outcome }: Settled,
  signal: AbortSignal,
): Promise<void> {
  if (!secret) return;
  const { resourceVersion, labels } = secret.metadata;
  if (outcome !== 'kept') return writer.remove(SECRET, secret, signal);
  if (labels?.[LABEL.retained] === 'true') return;
  // Over what was seen, too: a later Capsule's would be free for whoever has the name next.
  const metadata = { resourceVersion, labels: { [LABEL.retained]: 'true' } };
  await writer.merge(SECRET, secret, { metadata }, signal);
}

/** A retired principal is refused with 403, and then `finalize` says how things are. */
function ignore(status: number) {
  return (error: unknown) => {
    if (!isRefusal(error, status)) throw error;
  };
}
