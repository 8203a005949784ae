import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import type { Selection } from '../grants/mint.ts';
import { Secret } from '../secret.ts';
import { type BrokerOptions, brokerClient } from './client.ts';

/** The object-storage broker's control listener as its wire has it: principals and what is selected, never an object. */
export interface ObjectStoreBroker {
  /** Again, with another quota: that one holds from now on. Undefined is the broker's default. */
  provision(
    capsule: string,
    principal: Secret,
    quotaBytes: number | undefined,
    signal: AbortSignal,
  ): Promise<void>;
  createApp(
    capsule: string,
    app: string,
    principal: Secret,
    workload: Secret,
    signal: AbortSignal,
  ): Promise<void>;
  dropApp(capsule: string, app: string, principal: Secret, signal: AbortSignal): Promise<void>;
  /** The credential set that the Capsule has selected; undefined is the Space-managed credential. */
  selection(capsule: string, principal: Secret, signal: AbortSignal): Promise<Selection | undefined>;
  /** What counts against the quota now. */
  usage(capsule: string, principal: Secret, signal: AbortSignal): Promise<ObjectsUsage>;
  drop(capsule: string, principal: Secret, signal: AbortSignal): Promise<void>;
  finalize(capsule: string, signal: AbortSignal): Promise<void>;
}

export interface ObjectsUsage {
  readonly usedBytes: number;
  /** In force. */
  readonly limitBytes: number;
}

export interface ObjectStoreBrokerOptions extends Omit<BrokerOptions, 'broker'> {
  /** Read for every call, as a rotated token is written over the old one. */
  readonly provisionerToken: () => Promise<Secret>;
}

const Created = z.object({ created: z.boolean(), trace_id: z.string() });
const Dropped = z.object({ dropped: z.union([z.string(), z.array(z.string())]), trace_id: z.string() });
const Finalized = z.object({ finalized: z.boolean(), trace_id: z.string() });

const Used = z.object({
  used_bytes: z.number().int(),
  quota_bytes: z.number().int(),
  open_uploads: z.number().int(),
  trace_id: z.string(),
});

const Inventory = z.object({
  selected: z.string().nullable(),
  sets: z.array(z.object({ set_id: z.string(), generation: z.number().int() })),
});

const BROKER = { name: 'object-storage broker', deployment: 'objectstore-broker' };
/** A drop deletes every object; one that takes longer is taken up again where it was. */
const DROP_MS = 60_000;

const token = (audience: 'osp' | 'osw') =>
  new Secret(`spc_${audience}_${randomBytes(32).toString('base64url')}`);
export const newCapsulePrincipal = () => token('osp');
export const newWorkloadPrincipal = () => token('osw');

export function objectStoreBroker({
  provisionerToken,
  ...options
}: ObjectStoreBrokerOptions): ObjectStoreBroker {
  const post = brokerClient({ ...options, broker: BROKER });
  return {
    async provision(capsule_id, principal, quotaBytes, signal) {
      const quota = quotaBytes === undefined ? {} : { quota_bytes: quotaBytes };
      await post({
        operation: 'capsule.provision',
        path: '/v1/capsules/provision',
        answer: Created,
        token: await provisionerToken(),
        body: { capsule_id, principal_token: principal.reveal(), ...quota },
        signal,
      });
    },
    async createApp(capsule_id, app_id, principal, workload, signal) {
      await post({
        operation: 'capsule.app.create',
        path: '/v1/capsules/apps/create',
        answer: Created,
        token: principal,
        body: { capsule_id, app_id, principal_token: workload.reveal() },
        signal,
      });
    },
    async dropApp(capsule_id, app_id, principal, signal) {
      await post({
        operation: 'capsule.app.drop',
        path: '/v1/capsules/apps/drop',
        answer: Dropped,
        token: principal,
        body: { capsule_id, app_id },
        signal,
        timeoutMs: DROP_MS,
      });
    },
    async selection(capsule_id, principal, signal) {
      const { selected, sets } = await post({
        operation: 'capsule.credential.list',
        path: '/v1/capsules/credentials/list',
        answer: Inventory,
        token: principal,
        body: { capsule_id },
        signal,
      });
      const set = sets.find(({ set_id }) => set_id === selected);
      if (selected !== null && set === undefined) throw new Error('a set is selected that is not there');
      return set && { setId: set.set_id, generation: set.generation };
    },
    async usage(capsule_id, principal, signal) {
      const { used_bytes, quota_bytes } = await post({
        operation: 'capsule.usage',
        path: '/v1/capsules/usage',
        answer: Used,
        token: principal,
        body: { capsule_id },
        signal,
      });
      return { usedBytes: used_bytes, limitBytes: quota_bytes };
    },
    async drop(capsule_id, principal, signal) {
      await post({
        operation: 'capsule.drop',
        path: '/v1/capsules/drop',
        answer: Dropped,
        token: principal,
        body: { capsule_id },
        signal,
        timeoutMs: DROP_MS,
      });
    },
    async finalize(capsule_id, signal) {
      await post({
        operation: 'capsule.finalize',
        path: '/v1/capsules/finalize',
        answer: Finalized,
        token: await provisionerToken(),
        body: { capsule_id },
        signal,
      });
    },
  };
}
