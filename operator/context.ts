import type { Logger } from 'pino';
import type { Fingerprints } from './assistant/inputs/fingerprint.ts';
import type { DatabaseBroker, DatabaseUsage } from './brokers/database.ts';
import type { ObjectStoreBroker, ObjectsUsage } from './brokers/objects.ts';
import type { AppUsage, Usages } from './capsule/usages.ts';
import type { Finding } from './conditions.ts';
import type { Gateways } from './egress/gateways.ts';
import type { Clocks } from './grace.ts';
import type { Selection } from './grants/mint.ts';
import type { GrantKey } from './grants/sign.ts';
import type { SecretObject } from './kinds.ts';
import { SECRET } from './kinds.ts';
import type { SpaceNames } from './names.ts';
import type { Writer } from './runtime/apply.ts';
import type { ApiClient } from './runtime/client.ts';
import { isNotFound, ReadRefusedError } from './runtime/errors.ts';
import type { EventRecorder } from './runtime/events.ts';
import type { Kept } from './runtime/kept.ts';
import { makeKey, pathOf } from './runtime/kube-object.ts';
import type { Stores } from './stores.ts';

/** The operator's identity at the API server: the subject of the RoleBindings that it creates for itself. */
export interface Identity {
  readonly kind: 'ServiceAccount' | 'User';
  readonly name: string;
  readonly namespace?: string;
}

/** What every reconcile uses. */
export interface Context {
  readonly names: SpaceNames;
  readonly identity: Identity;
  readonly stores: Stores;
  readonly client: ApiClient;
  readonly writer: Writer;
  readonly events: EventRecorder;
  readonly database: DatabaseBroker;
  /** The Space's current authority in PEM, by which Assistants verify the services. */
  readonly spaceCa: () => Promise<string | undefined>;
  /**
   * Authorities in PEM of PostgreSQL servers that the Space does not run. Assistants trust them for these servers only.
   */
  readonly databaseCa: () => Promise<string | undefined>;
  /** Undefined in a Space without an object store. */
  readonly objectStore: ObjectStoreBroker | undefined;
  /**
   * Undefined if objects are always in the Space's bucket. The key is read for every use, so that an exchanged one
   * signs at once.
   */
  readonly grantKey: (() => Promise<GrantKey>) | undefined;
  readonly gateways: Gateways;
  readonly gate: () => Finding;
  /** Whether network policies are enforced. */
  readonly network: () => Finding;
  /** A finding about an admission policy of the release that is missing or changed; undefined if all are in place. */
  readonly admission: (signal: AbortSignal) => Promise<Finding | undefined>;
  readonly now: () => string;
  /** The clocks of this process. */
  readonly clocks: () => Omit<Clocks, 'server'>;
  readonly log: Logger;
  /** The last known usage of Capsules' databases. */
  readonly databaseUsages: Usages<DatabaseUsage | Finding>;
  /** The last known usage of Capsules' objects. */
  readonly objectUsages: Usages<ObjectsUsage | Finding>;
  /** The last known usage of an Assistant's database and files. */
  readonly appUsages: Usages<AppUsage>;
  /** The selection of each Capsule, by its name, which is read once for all Assistants of the Capsule. */
  readonly selections: Kept<Selection | undefined>;
  /** Of the values of stored inputs. */
  readonly fingerprints: Fingerprints;
  /** The time until an object is reconciled again that nothing has changed. */
  readonly sweepMs: () => number;
}

/** Secrets are read by name and never watched: a watch would need the right to list them all. */
export async function readSecret(
  context: Pick<Context, 'client'>,
  namespace: string,
  name: string,
  signal: AbortSignal,
): Promise<SecretObject | undefined> {
  try {
    return await context.client.call<SecretObject>({
      method: 'GET',
      path: pathOf(SECRET, namespace, name),
      signal,
    });
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** The longest time after which API servers go by a new RoleBinding. */
const BINDING_MS = 10_000;

/**
 * Reads a Secret of a Capsule's namespace. A namespace that does not exist yet has none, and the API server would
 * refuse the request, as it does for a moment before and after the operator has bound its role there: that is no missing
 * right. A binding that is missing later is one: what may not be read may still be there.
 */
export async function readCapsuleSecret(
  context: Pick<Context, 'client' | 'stores' | 'now'>,
  namespace: string,
  name: string,
  signal: AbortSignal,
): Promise<SecretObject | undefined> {
  const { namespaces, roleBindings } = context.stores;
  const begun = roleBindings.get(makeKey(namespace, 'space-operator')) ?? namespaces.get(namespace);
  if (!begun) return undefined;
  try {
    return await readSecret(context, namespace, name, signal);
  } catch (error) {
    const since = Date.parse(begun.metadata.creationTimestamp ?? '');
    if (error instanceof ReadRefusedError && Date.parse(context.now()) - since < BINDING_MS)
      throw new Error(`the role of the operator in ${namespace} is not in force yet`, { cause: error });
    throw error;
  }
}
