import { isId } from '@space/manifests';
import { z } from 'zod';
import { capsuleName } from '../../manifests/rules/capsule.ts';

/** The wire of the database broker: one schema for each request and answer, closed. */

/** `capsule_id` and `app_id` have the shape of a manifest's id. */
const id = z
  .string()
  .max(40)
  .refine(isId, 'not an id')
  .meta({
    minLength: capsuleName.min,
    pattern: (capsuleName.checks ?? []).map(({ pattern }) => pattern).join(''),
    not: { enum: capsuleName.except },
  });

const principalToken = z.string().regex(/^spc_dbp_[A-Za-z0-9_-]{43}$/);

const traceId = z.string().regex(/^[0-9a-f]{32}$/);
const databaseName = z.string().regex(/^[a-z0-9_]{1,63}$/);
const issued = z.strictObject({ database_url: z.string(), created: z.boolean(), trace_id: traceId });

export type Authority = 'provisioner' | 'capsule';

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
} as const satisfies Record<
  string,
  { path: `/v1/${string}`; authority: Authority; request: z.ZodObject; response: z.ZodObject }
>;

export type OperationName = keyof typeof CONTRACT;
export type RequestOf<Name extends OperationName> = z.infer<(typeof CONTRACT)[Name]['request']>;
export type AnswerOf<Name extends OperationName> = Omit<
  z.infer<(typeof CONTRACT)[Name]['response']>,
  'trace_id'
>;

export const OPERATIONS = Object.keys(CONTRACT) as readonly OperationName[];
