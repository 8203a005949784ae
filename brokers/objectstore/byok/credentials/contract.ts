import { type Contract, id, traceId } from '@space/broker-kit/control';
import { z } from 'zod';
import { fields } from './form.ts';

/** The wire of the five credential operations: one schema for each request and answer, closed; no value in any answer. */

const count = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const setId = z.string().regex(/^ocs_[A-Za-z0-9_-]{22}$/);
/** The shape of an Identifier of the manifest. */
const name = z
  .string()
  .max(64)
  .regex(/^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/);
const idempotencyKey = z.string().regex(/^[A-Za-z0-9_-]{16,64}$/);
const time = z.iso.datetime({ precision: 3 });

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

const changed = z.strictObject({ ...record, inventory_generation: count, trace_id: traceId });

export const CREDENTIAL_CONTRACT = {
  'capsule.credential.list': {
    path: '/v1/capsules/credentials/list',
    authority: 'capsule',
    request: z.strictObject({ capsule_id: id }),
    response: z.strictObject({
      inventory_generation: count,
      selected: setId.nullable(),
      sets: z.array(z.strictObject(record)),
      trace_id: traceId,
    }),
  },
  'capsule.credential.create': {
    path: '/v1/capsules/credentials/create',
    authority: 'capsule',
    request: z.strictObject({
      capsule_id: id,
      name,
      form_version: z.literal(1),
      fields,
      expected_inventory_generation: count,
      idempotency_key: idempotencyKey,
    }),
    response: changed,
  },
  'capsule.credential.rotate': {
    path: '/v1/capsules/credentials/rotate',
    authority: 'capsule',
    request: z.strictObject({
      capsule_id: id,
      set_id: setId,
      form_version: z.literal(1),
      fields,
      expected_generation: count,
      idempotency_key: idempotencyKey,
    }),
    response: changed,
  },
  'capsule.credential.select': {
    path: '/v1/capsules/credentials/select',
    authority: 'capsule',
    request: z.strictObject({
      capsule_id: id,
      set_id: setId.nullable(),
      expected_inventory_generation: count,
    }),
    response: z.strictObject({ selected: setId.nullable(), inventory_generation: count, trace_id: traceId }),
  },
  'capsule.credential.delete': {
    path: '/v1/capsules/credentials/delete',
    authority: 'capsule',
    request: z.strictObject({ capsule_id: id, set_id: setId, expected_generation: count }),
    response: z.strictObject({
      deleted: setId,
      inventory_generation: count,
      already_absent: z.literal(true).optional(),
      trace_id: traceId,
    }),
  },
} as const satisfies Contract;

export type CredentialRecord = z.infer<z.ZodObject<typeof record>>;
