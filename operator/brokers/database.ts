import { randomBytes } from 'node:crypto';
import { type BrokerOptions, brokerClient } from '@space/contracts/client';
import { DATABASE } from '@space/contracts/database';
import { Secret } from '@space/contracts/secret';

/** The database broker's operations that the operator calls. */
export interface DatabaseBroker {
  provision(capsule: string, principal: Secret, signal: AbortSignal): Promise<Secret>;
  createApp(capsule: string, app: string, principal: Secret, signal: AbortSignal): Promise<Secret>;
  dropApp(capsule: string, app: string, principal: Secret, signal: AbortSignal): Promise<void>;
  drop(capsule: string, principal: Secret, signal: AbortSignal): Promise<void>;
  finalize(capsule: string, signal: AbortSignal): Promise<void>;
  /** Bytes that one workload's database takes of the disk. */
  appUsage(capsule: string, app: string, principal: Secret, signal: AbortSignal): Promise<number>;
  /** Sets the Capsule's limits, where undefined means the broker's default, and returns its usage. */
  limits(capsule: string, limits: DatabaseLimits, signal: AbortSignal): Promise<DatabaseUsage>;
}

export interface DatabaseLimits {
  readonly bytes: number | undefined;
  readonly connections: number | undefined;
}

export interface DatabaseUsage {
  readonly usedBytes: number;
  /** The limit in effect. */
  readonly limitBytes: number;
  readonly standing: 'ok' | 'near' | 'full' | 'closed';
}

export interface DatabaseBrokerOptions extends Omit<BrokerOptions, 'broker'> {
  /** Read for every call, since a rotation replaces the token in its file. */
  readonly provisionerToken: () => Promise<Secret>;
}

const BROKER = { name: 'database broker', deployment: 'db-broker' };
/** A drop waits for a checkpoint of the whole server, so it may take longer than other calls. */
const DROP_MS = 60_000;

export function newPrincipal(): Secret {
  return new Secret(`spc_dbp_${randomBytes(32).toString('base64url')}`);
}

export function databaseBroker({ provisionerToken, ...options }: DatabaseBrokerOptions): DatabaseBroker {
  const call = brokerClient(DATABASE, { ...options, broker: BROKER });
  return {
    async provision(capsule_id, principal, signal) {
      const request = { capsule_id, principal_token: principal.reveal() };
      const { database_url } = await call('capsule.provision', request, {
        token: await provisionerToken(),
        signal,
      });
      return new Secret(database_url);
    },
    async createApp(capsule_id, app_id, token, signal) {
      const { database_url } = await call('capsule.app.create', { capsule_id, app_id }, { token, signal });
      return new Secret(database_url);
    },
    async dropApp(capsule_id, app_id, token, signal) {
      await call('capsule.app.drop', { capsule_id, app_id }, { token, signal, timeoutMs: DROP_MS });
    },
    async drop(capsule_id, token, signal) {
      await call('capsule.drop', { capsule_id }, { token, signal, timeoutMs: DROP_MS });
    },
    async limits(capsule_id, { bytes, connections }, signal) {
      const request = {
        capsule_id,
        ...(bytes === undefined ? {} : { database_bytes: bytes }),
        ...(connections === undefined ? {} : { connections }),
      };
      const { used_bytes, database_bytes, standing } = await call('capsule.limits', request, {
        token: await provisionerToken(),
        signal,
      });
      return { usedBytes: used_bytes, limitBytes: database_bytes, standing };
    },
    async appUsage(capsule_id, app_id, token, signal) {
      return (await call('capsule.app.usage', { capsule_id, app_id }, { token, signal })).used_bytes;
    },
    async finalize(capsule_id, signal) {
      await call('capsule.finalize', { capsule_id }, { token: await provisionerToken(), signal });
    },
  };
}
