import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { Secret } from '../secret.ts';
import { type BrokerOptions, brokerClient } from './client.ts';

/** The database broker as its wire has it. */
export interface DatabaseBroker {
  provision(capsule: string, principal: Secret, signal: AbortSignal): Promise<Secret>;
  createApp(capsule: string, app: string, principal: Secret, signal: AbortSignal): Promise<Secret>;
  dropApp(capsule: string, app: string, principal: Secret, signal: AbortSignal): Promise<void>;
  drop(capsule: string, principal: Secret, signal: AbortSignal): Promise<void>;
  finalize(capsule: string, signal: AbortSignal): Promise<void>;
  /** Tells what the Capsule may have, where undefined is the broker's default, and hears what it holds. */
  limits(capsule: string, limits: DatabaseLimits, signal: AbortSignal): Promise<DatabaseUsage>;
}

export interface DatabaseLimits {
  readonly bytes: number | undefined;
  readonly connections: number | undefined;
}

export interface DatabaseUsage {
  readonly usedBytes: number;
  /** In force. */
  readonly limitBytes: number;
  readonly standing: 'ok' | 'near' | 'full' | 'closed';
}

export interface DatabaseBrokerOptions extends Omit<BrokerOptions, 'broker'> {
  /** Read for every call, as a rotated token is written over the old one. */
  readonly provisionerToken: () => Promise<Secret>;
}

const Provisioned = z.object({ database_url: z.string().min(1), created: z.boolean(), trace_id: z.string() });
const Dropped = z.object({ dropped: z.union([z.string(), z.array(z.string())]), trace_id: z.string() });
const Finalized = z.object({ finalized: z.boolean(), trace_id: z.string() });

const Limited = z.object({
  database_bytes: z.number().int(),
  connections: z.number().int(),
  used_bytes: z.number().int(),
  standing: z.enum(['ok', 'near', 'full', 'closed']),
  trace_id: z.string(),
});

const BROKER = { name: 'database broker', deployment: 'db-broker' };
/** A drop waits for a checkpoint of the whole server. */
const DROP_MS = 60_000;

export function newPrincipal(): Secret {
  return new Secret(`spc_dbp_${randomBytes(32).toString('base64url')}`);
}

export function databaseBroker({ provisionerToken, ...options }: DatabaseBrokerOptions): DatabaseBroker {
  const post = brokerClient({ ...options, broker: BROKER });
  return {
    async provision(capsule_id, principal, signal) {
      const { database_url } = await post({
        operation: 'capsule.provision',
        path: '/v1/capsules/provision',
        answer: Provisioned,
        token: await provisionerToken(),
        body: { capsule_id, principal_token: principal.reveal() },
        signal,
      });
      return new Secret(database_url);
    },
    async createApp(capsule_id, app_id, token, signal) {
      const { database_url } = await post({
        operation: 'capsule.app.create',
        path: '/v1/capsules/apps/create',
        answer: Provisioned,
        token,
        body: { capsule_id, app_id },
        signal,
      });
      return new Secret(database_url);
    },
    async dropApp(capsule_id, app_id, token, signal) {
      await post({
        operation: 'capsule.app.drop',
        path: '/v1/capsules/apps/drop',
        answer: Dropped,
        token,
        body: { capsule_id, app_id },
        signal,
        timeoutMs: DROP_MS,
      });
    },
    async drop(capsule_id, token, signal) {
      await post({
        operation: 'capsule.drop',
        path: '/v1/capsules/drop',
        answer: Dropped,
        token,
        body: { capsule_id },
        signal,
        timeoutMs: DROP_MS,
      });
    },
    async limits(capsule_id, { bytes, connections }, signal) {
      const { used_bytes, database_bytes, standing } = await post({
        operation: 'capsule.limits',
        path: '/v1/capsules/limits',
        answer: Limited,
        token: await provisionerToken(),
        body: {
          capsule_id,
          ...(bytes === undefined ? {} : { database_bytes: bytes }),
          ...(connections === undefined ? {} : { connections }),
        },
        signal,
      });
      return { usedBytes: used_bytes, limitBytes: database_bytes, standing };
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
