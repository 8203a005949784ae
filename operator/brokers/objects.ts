import { randomBytes } from 'node:crypto';
import { BrokerError, type BrokerOptions, brokerClient } from '@space/contracts/client';
import { OBJECT_STORE } from '@space/contracts/objectstore';
import { Secret } from '@space/contracts/secret';
import type { Selection } from '../grants/mint.ts';

/**
 * The object-storage broker's operations that the operator calls. They concern principals and selections, never
 * objects.
 */
export interface ObjectStoreBroker {
  /** Registers the Capsule, or sets its quota if it is registered; undefined means the broker's default. */
  provision(
    capsule: string,
    principal: Secret,
    quotaBytes: number | undefined,
    signal: AbortSignal,
  ): Promise<void>;
  /** Registers the token of a workload, with the Capsule's principal. */
  createApp(
    capsule: string,
    app: string,
    tokens: { readonly principal: Secret; readonly workload: Secret },
    signal: AbortSignal,
  ): Promise<void>;
  dropApp(capsule: string, app: string, principal: Secret, signal: AbortSignal): Promise<void>;
  /** The credential set that the Capsule has selected; undefined means the Space-managed credential. */
  selection(capsule: string, principal: Secret, signal: AbortSignal): Promise<Selection | undefined>;
  /** What counts against the quota. */
  usage(capsule: string, principal: Secret, signal: AbortSignal): Promise<ObjectsUsage>;
  /** Bytes of one workload's own objects; undefined until they have been listed. */
  appUsage(capsule: string, app: string, principal: Secret, signal: AbortSignal): Promise<number | undefined>;
  drop(capsule: string, principal: Secret, signal: AbortSignal): Promise<void>;
  finalize(capsule: string, signal: AbortSignal): Promise<void>;
}

export interface ObjectsUsage {
  readonly usedBytes: number;
  /** The limit in effect. */
  readonly limitBytes: number;
}

export interface ObjectStoreBrokerOptions extends Omit<BrokerOptions, 'broker'> {
  /** Read for every call, since a rotation replaces the token in its file. */
  readonly provisionerToken: () => Promise<Secret>;
}

const BROKER = { name: 'object-storage broker', deployment: 'objectstore-broker' };
/** A drop deletes every object; one that takes longer is continued by the next call. */
const DROP_MS = 60_000;

const token = (audience: 'osp' | 'osw') =>
  new Secret(`spc_${audience}_${randomBytes(32).toString('base64url')}`);
export const newCapsulePrincipal = () => token('osp');
export const newWorkloadPrincipal = () => token('osw');

export function objectStoreBroker({
  provisionerToken,
  ...options
}: ObjectStoreBrokerOptions): ObjectStoreBroker {
  const call = brokerClient(OBJECT_STORE, { ...options, broker: BROKER });
  return {
    async provision(capsule_id, principal, quotaBytes, signal) {
      const quota = quotaBytes === undefined ? {} : { quota_bytes: quotaBytes };
      const request = { capsule_id, principal_token: principal.reveal(), ...quota };
      await call('capsule.provision', request, { token: await provisionerToken(), signal });
    },
    async createApp(capsule_id, app_id, { principal: token, workload }, signal) {
      const request = { capsule_id, app_id, principal_token: workload.reveal() };
      await call('capsule.app.create', request, { token, signal });
    },
    async dropApp(capsule_id, app_id, token, signal) {
      await call('capsule.app.drop', { capsule_id, app_id }, { token, signal, timeoutMs: DROP_MS });
    },
    async selection(capsule_id, token, signal) {
      const { selected, sets } = await call('capsule.credential.list', { capsule_id }, { token, signal });
      const set = sets.find(({ set_id }) => set_id === selected);
      // This is a BrokerError, since any other error would end the reconcile before the status reports it.
      if (selected !== null && set === undefined)
        throw new BrokerError(BROKER, 'unreachable', 'it has selected a set that it does not have');
      return set && { setId: set.set_id, generation: set.generation };
    },
    async usage(capsule_id, token, signal) {
      const { used_bytes, quota_bytes } = await call('capsule.usage', { capsule_id }, { token, signal });
      return { usedBytes: used_bytes, limitBytes: quota_bytes };
    },
    async appUsage(capsule_id, app_id, token, signal) {
      return (await call('capsule.app.usage', { capsule_id, app_id }, { token, signal })).used_bytes;
    },
    async drop(capsule_id, token, signal) {
      await call('capsule.drop', { capsule_id }, { token, signal, timeoutMs: DROP_MS });
    },
    async finalize(capsule_id, signal) {
      await call('capsule.finalize', { capsule_id }, { token: await provisionerToken(), signal });
    },
  };
}
