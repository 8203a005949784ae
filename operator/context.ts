import type { Logger } from 'pino';
import type { DatabaseBroker, DatabaseUsage } from './brokers/database.ts';
import type { ObjectStoreBroker, ObjectsUsage } from './brokers/objects.ts';
import type { AppUsage, Usages } from './capsule/usages.ts';
import type { Finding } from './conditions.ts';
import type { Gateways } from './egress/gateways.ts';
import type { Selection } from './grants/mint.ts';
import type { GrantKey } from './grants/sign.ts';
import type { SecretObject } from './kinds.ts';
import { SECRET } from './kinds.ts';
import type { SpaceNames } from './names.ts';
import type { Writer } from './runtime/apply.ts';
import type { ApiClient } from './runtime/client.ts';
import { isNotFound } from './runtime/errors.ts';
import type { EventRecorder } from './runtime/events.ts';
import type { Kept } from './runtime/kept.ts';
import { pathOf } from './runtime/kube-object.ts';
import type { Stores } from './stores.ts';

/** The operator's identity at the API server: the subject of the RoleBindings that it creates for itself. */
export interface Identity {
  readonly kind: 'ServiceAccount' | 'User';
  readonly name: string;
  readonly namespace?: string;
}

/** What every reconcile works with. */
export interface Context {
  readonly names: SpaceNames;
  readonly identity: Identity;
  readonly stores: Stores;
  readonly client: ApiClient;
  readonly writer: Writer;
  readonly events: EventRecorder;
  readonly database: DatabaseBroker;
  /** The Space's authority, PEM, as it is now; Assistants verify the services with it. */
  readonly spaceCa: () => Promise<string | undefined>;
  /** Authorities of PostgreSQL servers that the Space does not run; Assistants verify those with them alone. */
  readonly databaseCa: () => Promise<string | undefined>;
  /** Undefined in a Space without an object store. */
  readonly objectStore: ObjectStoreBroker | undefined;
  /** Undefined where objects are always in the Space's bucket. Read for every use: one that was exchanged signs at once. */
  readonly grantKey: (() => Promise<GrantKey>) | undefined;
  readonly gateways: Gateways;
  readonly gate: () => Finding;
  /** Whether network policies are enforced. */
  readonly network: () => Finding;
  /** What of the release's admission policies does not stand; undefined when all do. */
  readonly admission: (signal: AbortSignal) => Promise<Finding | undefined>;
  readonly now: () => string;
  readonly log: Logger;
  /** What Capsules' databases held when the broker was asked last. */
  readonly databaseUsages: Usages<DatabaseUsage | Finding>;
  /** What Capsules' objects took when that broker was asked last. */
  readonly objectUsages: Usages<ObjectsUsage | Finding>;
  /** What an Assistant's database and files took when the brokers were asked last. */
  readonly appUsages: Usages<AppUsage>;
  /** The selection of each Capsule, by name, which is read once for all its Assistants. */
  readonly selections: Kept<Selection | undefined>;
  /** Between two reconciles of an object that nothing has touched. */
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
