import { BrokerError } from '@space/contracts/client';
import type { DatabaseBroker } from '../brokers/database.ts';
import { brokerFinding } from '../brokers/findings.ts';
import type { Finding } from '../conditions.ts';
import { type Context, readSecret } from '../context.ts';
import { CAPSULE, type Capsule, SECRET, type SecretObject } from '../kinds.ts';
import { ANNOTATION, objectPrincipalSecretName, principalSecretName } from '../names.ts';
import { mustRelease, ownPrincipal } from './fate.ts';
import { principalOf } from './principal.ts';

/** What one broker keeps for a Capsule, and the principal that closes it, when it is this Capsule's own. */
export interface Holding {
  /** True in the Capsule's status once the broker had opened anything. */
  readonly condition: 'DatabaseReady' | 'ObjectStoreReady';
  readonly broker: Pick<DatabaseBroker, 'drop' | 'finalize'>;
  readonly secret: SecretObject | undefined;
}

export interface Blocked {
  readonly finding: Finding;
  readonly cause: unknown;
}

export async function readHoldings(
  context: Context,
  capsule: Capsule,
  signal: AbortSignal,
): Promise<Holding[]> {
  const { name } = capsule.metadata;
  const read = async (
    condition: Holding['condition'],
    broker: Holding['broker'],
    secretName: string,
  ): Promise<Holding> => {
    const secret = await readSecret(context, context.names.systemNamespace, secretName, signal);
    return { condition, broker, secret: ownPrincipal(capsule, secret) };
  };
  const { database, objectStore } = context;
  return Promise.all([
    read('DatabaseReady', database, principalSecretName(name)),
    ...(objectStore ? [read('ObjectStoreReady', objectStore, objectPrincipalSecretName(name))] : []),
  ]);
}

/** Drop, then finalize; what says that it was done before is as good as doing it. */
export async function release(
  context: Context,
  capsule: Capsule,
  { condition, broker, secret }: Holding,
  signal: AbortSignal,
): Promise<Blocked | undefined> {
  const { name } = capsule.metadata;
  if (!mustRelease(capsule, condition, secret)) return undefined;
  try {
    if (secret) await broker.drop(name, principalOf(secret), signal).catch(ignore(403));
    await broker.finalize(name, signal).catch(ignore(404));
  } catch (error) {
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
  // The namespace may take long to go: what is done with the broker is not done again meanwhile.
  if (secret) {
    // Over what was seen: on the principal of a later Capsule it would keep that one's data from being dropped.
    const { resourceVersion } = secret.metadata;
    const metadata = { resourceVersion, annotations: { [ANNOTATION.finalized]: 'true' } };
    await context.writer.merge(SECRET, secret, { metadata }, signal);
  }
  return undefined;
}

/** A retired principal is refused with 403, and then `finalize` says how things are. */
function ignore(status: number) {
  return (error: unknown) => {
    if (!(error instanceof BrokerError && error.failure === 'refused' && error.status === status))
      throw error;
  };
}
