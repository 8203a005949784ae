import type { ApiClient } from './client.ts';
import { isNotFound } from './errors.ts';
import { apiVersionOf, type KubeObject, pathOf, type Resource } from './kube-object.ts';

const LEASE: Resource = {
  group: 'coordination.k8s.io',
  version: 'v1',
  plural: 'leases',
  kind: 'Lease',
  namespaced: true,
};

/** A Lease as the API server has it. */
export interface LeaseObject extends KubeObject {
  readonly spec?: {
    readonly holderIdentity?: string;
    readonly leaseDurationSeconds?: number;
    readonly acquireTime?: string;
    readonly renewTime?: string;
    readonly leaseTransitions?: number;
  };
}

export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
}

/** Which Lease, and the client that reads and writes it. */
export interface LeaseRef {
  readonly client: ApiClient;
  readonly namespace: string;
  readonly name: string;
  /** The owner of a new Lease, so that the Lease is deleted with it, even if no process is left. */
  readonly owner?: () => OwnerReference | undefined;
}

/**
 * The values are client-go's: a slow server has time to answer, and after an attempt that hangs there is time for
 * another.
 */
const CALL_MS = 5_000;

/** The Lease; undefined if there is none. */
export async function readLease(
  { client, namespace, name }: LeaseRef,
  signal: AbortSignal,
): Promise<LeaseObject | undefined> {
  try {
    const path = pathOf(LEASE, namespace, name);
    return await client.call<LeaseObject>({ method: 'GET', path, signal, timeoutMs: CALL_MS });
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/**
 * Creates the Lease, or replaces the version that was read: of two processes that write at the same time, one gets a
 * conflict.
 */
export function writeLease(
  { client, namespace, name, owner }: LeaseRef,
  seen: LeaseObject | undefined,
  spec: LeaseObject['spec'],
): Promise<LeaseObject> {
  const made = owner?.();
  const born = { name, namespace, ...(made ? { ownerReferences: [made] } : {}) };
  return client.call<LeaseObject>({
    method: seen === undefined ? 'POST' : 'PUT',
    path: pathOf(LEASE, namespace, seen === undefined ? undefined : name),
    body: { apiVersion: apiVersionOf(LEASE), kind: LEASE.kind, metadata: seen?.metadata ?? born, spec },
    timeoutMs: CALL_MS,
  });
}
