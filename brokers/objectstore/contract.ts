import { type Contract, id, traceId } from '@space/broker-kit/control';
import { z } from 'zod';
import { CREDENTIAL_CONTRACT } from './byok/credentials/contract.ts';

/** The control wire of the object-storage broker: one schema for each request and answer, closed. */

const capsulePrincipal = z.string().regex(/^spc_osp_[A-Za-z0-9_-]{43}$/);
const workloadPrincipal = z.string().regex(/^spc_osw_[A-Za-z0-9_-]{43}$/);
/** Bytes. */
const quota = z.number().int().min(1).max(Number.MAX_SAFE_INTEGER);
const count = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);

const principals = {
  'capsule.provision': {
    path: '/v1/capsules/provision',
    authority: 'provisioner',
    request: z.strictObject({
      capsule_id: id,
      principal_token: capsulePrincipal,
      quota_bytes: quota.optional(),
    }),
    response: z.strictObject({ created: z.boolean(), trace_id: traceId }),
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
    request: z.strictObject({ capsule_id: id, app_id: id, principal_token: workloadPrincipal }),
    response: z.strictObject({ created: z.boolean(), trace_id: traceId }),
  },
  'capsule.app.drop': {
    path: '/v1/capsules/apps/drop',
    authority: 'capsule',
    request: z.strictObject({ capsule_id: id, app_id: id }),
    response: z.strictObject({
      dropped: id,
      already_absent: z.literal(true).optional(),
      trace_id: traceId,
    }),
  },
  'capsule.drop': {
    path: '/v1/capsules/drop',
    authority: 'capsule',
    request: z.strictObject({ capsule_id: id }),
    response: z.strictObject({ dropped: z.array(id), trace_id: traceId }),
  },
  'capsule.usage': {
    path: '/v1/capsules/usage',
    authority: 'capsule',
    request: z.strictObject({ capsule_id: id }),
    response: z.strictObject({
      used_bytes: count,
      quota_bytes: quota,
      open_uploads: count,
      trace_id: traceId,
    }),
  },
} as const satisfies Contract;

export const CONTRACT = { ...principals, ...CREDENTIAL_CONTRACT } as const satisfies Contract;
