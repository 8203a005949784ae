import { type Contract, id, operationsOf, traceId } from '@space/broker-kit/control';
import * as z from 'zod';

/** The wire of the database broker: one schema for each request and answer, closed. */

const principalToken = z.string().regex(/^spc_dbp_[A-Za-z0-9_-]{43}$/);

const databaseName = z.string().regex(/^[a-z0-9_]{1,63}$/);
const issued = z.strictObject({ database_url: z.string(), created: z.boolean(), trace_id: traceId });

export const CONTRACT = {
  'capsule.provision': {
    path: '/v1/capsules/provision',
    authority: 'provisioner',
    request: z.strictObject({ capsule_id: id, principal_token: principalToken }),
    response: issued,
  },
  'capsule.finalize': {
    path: '/v1/capsules/finalize',
    authority: 'provisioner',
    request: z.strictObject({ capsule_id: id }),
    response: z.strictObject({ finalized: z.literal(true), trace_id: traceId }),
  },
  'capsule.app.create': {
    path: '/v1/capsules/apps/create',
    authority: 'capsule',
    request: z.strictObject({ capsule_id: id, app_id: id }),
    response: issued,
  },
  'capsule.app.drop': {
    path: '/v1/capsules/apps/drop',
    authority: 'capsule',
    request: z.strictObject({ capsule_id: id, app_id: id }),
    response: z.strictObject({
      dropped: databaseName,
      already_absent: z.literal(true).optional(),
      trace_id: traceId,
    }),
  },
  'capsule.drop': {
    path: '/v1/capsules/drop',
    authority: 'capsule',
    request: z.strictObject({ capsule_id: id }),
    response: z.strictObject({ dropped: z.array(databaseName), trace_id: traceId }),
  },
} as const satisfies Contract;

/**
 * What the broker serves beside the operations of the interface, for the operator of its own release: the driver document
 * does not know of it, and nothing of the five depends on it.
 */
const ADDITIONS = {
  'capsule.limits': {
    path: '/v1/capsules/limits',
    authority: 'provisioner',
    request: z.strictObject({
      capsule_id: id,
      database_bytes: z.int().min(1).optional(),
      connections: z.int().min(1).max(1_000).optional(),
    }),
    response: z.strictObject({
      database_bytes: z.int(),
      connections: z.int(),
      used_bytes: z.int(),
      standing: z.enum(['ok', 'near', 'full', 'closed']),
      trace_id: traceId,
    }),
  },
} as const satisfies Contract;

export const SERVED = { ...CONTRACT, ...ADDITIONS } as const;

export type OperationName = keyof typeof CONTRACT;

export const OPERATIONS: readonly OperationName[] = operationsOf(CONTRACT);
