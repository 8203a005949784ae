import * as z from 'zod';
import { formats } from '../../manifests/driver/formats.ts';
import form from '../../manifests/driver/objectstore-credentials.json' with { type: 'json' };
import type { Contract, Operation } from './contract.ts';
import { id, traceId } from './fields.ts';

/** The control wire of the object-storage broker. */

const capsulePrincipal = z.string().regex(/^spc_osp_[A-Za-z0-9_-]{43}$/);
const workloadPrincipal = z.string().regex(/^spc_osw_[A-Za-z0-9_-]{43}$/);
/** Bytes. */
const quota = z.number().int().min(1).max(Number.MAX_SAFE_INTEGER);
const count = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);

const principals = {
  'capsule.provision': {
    path: '/v1/capsules/provision',
    authority: 'provisioner',
    summary: "Register a Capsule's principal and its quota",
    request: z.strictObject({
      capsule_id: id,
      principal_token: capsulePrincipal,
      quota_bytes: quota.optional(),
    }),
    response: z.strictObject({ created: z.boolean(), trace_id: traceId }),
    errors: ['conflict'],
  },
  'capsule.finalize': {
    path: '/v1/capsules/finalize',
    authority: 'provisioner',
    summary: 'Release the id of a dropped Capsule',
    request: z.strictObject({ capsule_id: id }),
    response: z.strictObject({ finalized: z.literal(true), trace_id: traceId }),
    errors: ['not_found', 'conflict'],
  },
  'capsule.app.create': {
    path: '/v1/capsules/apps/create',
    authority: 'capsule',
    summary: "Register a workload's principal, or exchange it",
    request: z.strictObject({ capsule_id: id, app_id: id, principal_token: workloadPrincipal }),
    response: z.strictObject({ created: z.boolean(), trace_id: traceId }),
    errors: ['conflict'],
  },
  'capsule.app.drop': {
    path: '/v1/capsules/apps/drop',
    authority: 'capsule',
    summary: "Retire a workload's principal and delete its objects",
    request: z.strictObject({ capsule_id: id, app_id: id }),
    response: z.strictObject({
      dropped: id,
      already_absent: z.literal(true).optional(),
      trace_id: traceId,
    }),
    errors: ['not_found'],
  },
  'capsule.drop': {
    path: '/v1/capsules/drop',
    authority: 'capsule',
    summary: "Delete all of the Capsule's objects and retire its principal",
    request: z.strictObject({ capsule_id: id }),
    response: z.strictObject({ dropped: z.array(id), trace_id: traceId }),
    errors: [],
  },
  'capsule.usage': {
    path: '/v1/capsules/usage',
    authority: 'capsule',
    summary: 'Tell what counts against the quota of the Capsule',
    request: z.strictObject({ capsule_id: id }),
    response: z.strictObject({
      used_bytes: count,
      quota_bytes: quota,
      open_uploads: count,
      trace_id: traceId,
    }),
    errors: [],
  },
  'capsule.app.usage': {
    path: '/v1/capsules/apps/usage',
    authority: 'capsule',
    summary: "Tell what one workload's own objects count in the Space's bucket, once they are listed",
    request: z.strictObject({ capsule_id: id, app_id: id }),
    response: z.strictObject({ used_bytes: count.optional(), trace_id: traceId }),
    errors: ['not_found'],
    unlisted: true,
  },
} as const satisfies Readonly<Record<string, Operation>>;

/** The schema of a submitted field, according to the served form. Throws for a field that the form lacks. */
function fieldOf(name: string) {
  const field = form.forms[0]?.fields.find((one) => one.id === name);
  const format = field && formats[field.format];
  if (field === undefined || format === undefined)
    throw new Error(`the credential form has no field ${name}`);
  const { pattern, refused } = format;
  const text = z.string().min(field.min).max(field.max).regex(pattern);
  return refused === undefined ? text : text.refine((value) => !refused.test(value), 'not in its format');
}

/** The fields of the form `s3-access-key`, as a strict schema. */
const fields = z.strictObject({
  endpoint: fieldOf('endpoint'),
  region: fieldOf('region'),
  bucket: fieldOf('bucket'),
  addressing: z.enum(['path', 'virtual-host']),
  'access-key-id': fieldOf('access-key-id'),
  'secret-access-key': fieldOf('secret-access-key'),
});

export type Fields = z.infer<typeof fields>;

/** The most sets that a Capsule may have. */
export const MAX_SETS = form.max_sets;

const setId = z.string().regex(/^ocs_[A-Za-z0-9_-]{22}$/);
/** The form of an Identifier in a manifest. */
const name = z
  .string()
  .max(64)
  .regex(/^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/);
const idempotencyKey = z.string().regex(/^[A-Za-z0-9_-]{16,64}$/);
const time = z.iso.datetime({ precision: 3 });

/** No answer contains a secret value of a set. */
const record = {
  set_id: setId,
  name,
  form_version: z.literal(1),
  generation: count.min(1),
  selected: z.boolean(),
  /** Host and port, without a scheme. */
  endpoint_host: z.string(),
  region: z.string(),
  bucket: z.string(),
  addressing: z.enum(['path', 'virtual-host']),
  access_key_fingerprint: z.string().regex(/^fp_[0-9a-f]{16}$/),
  verified_at: time,
  created_at: time,
  rotated_at: time.nullable(),
  state: z.literal('active'),
};

export type CredentialRecord = z.infer<z.ZodObject<typeof record>>;

const changed = z.strictObject({ ...record, inventory_generation: count, trace_id: traceId });

export const CREDENTIALS = {
  'capsule.credential.list': {
    path: '/v1/capsules/credentials/list',
    authority: 'capsule',
    summary: "Tell the Capsule's credential sets, without a value",
    request: z.strictObject({ capsule_id: id }),
    response: z.strictObject({
      inventory_generation: count,
      selected: setId.nullable(),
      sets: z.array(z.strictObject(record)),
      trace_id: traceId,
    }),
    errors: [],
  },
  'capsule.credential.create': {
    path: '/v1/capsules/credentials/create',
    authority: 'capsule',
    summary: 'Verify a candidate and keep it as a new set',
    request: z.strictObject({
      capsule_id: id,
      name,
      form_version: z.literal(1),
      fields,
      expected_inventory_generation: count,
      idempotency_key: idempotencyKey,
    }),
    response: changed,
    errors: ['conflict', 'stale_generation', 'already_exists', 'verification_failed', 'quota_exceeded'],
  },
  'capsule.credential.rotate': {
    path: '/v1/capsules/credentials/rotate',
    authority: 'capsule',
    summary: 'Verify new values and keep them in place of a set of the same bucket',
    request: z.strictObject({
      capsule_id: id,
      set_id: setId,
      form_version: z.literal(1),
      fields,
      expected_generation: count,
      idempotency_key: idempotencyKey,
    }),
    response: changed,
    errors: ['not_found', 'conflict', 'stale_generation', 'verification_failed'],
  },
  'capsule.credential.select': {
    path: '/v1/capsules/credentials/select',
    authority: 'capsule',
    summary: 'Choose a set, or the Space-managed credential',
    request: z.strictObject({
      capsule_id: id,
      set_id: setId.nullable(),
      expected_inventory_generation: count,
    }),
    response: z.strictObject({ selected: setId.nullable(), inventory_generation: count, trace_id: traceId }),
    errors: ['not_found', 'stale_generation'],
  },
  'capsule.credential.delete': {
    path: '/v1/capsules/credentials/delete',
    authority: 'capsule',
    summary: 'Delete a set that is not selected',
    request: z.strictObject({ capsule_id: id, set_id: setId, expected_generation: count }),
    response: z.strictObject({
      deleted: setId,
      inventory_generation: count,
      already_absent: z.literal(true).optional(),
      trace_id: traceId,
    }),
    errors: ['not_found', 'stale_generation', 'credential_selected'],
  },
} as const satisfies Readonly<Record<string, Operation>>;

export const OBJECT_STORE = {
  title: 'Object-storage broker of a Space',
  audiences: { provisioner: 'prv', capsule: 'osp' },
  documents: {
    '/v1/driver': { operation: 'driver', summary: 'The service contract of the image, byte for byte' },
    '/v1/driver/credentials': {
      operation: 'driver.credentials',
      summary: 'The credential form of the image, byte for byte',
    },
  },
  operations: { ...principals, ...CREDENTIALS },
  meanings: {
    404: 'Nothing of that name was ever created.',
    409: 'The state of the Capsule or workload does not allow it, or the principal was used before.',
    422: 'The candidate failed the check that the error names; nothing was kept.',
    507: 'The Capsule has as many sets as it may have.',
  },
  longest: { request: 16 * 1024, answer: 64 * 1024 },
} as const satisfies Contract;
