import * as z from 'zod';
import { formats, isWithin } from './formats.ts';
import { isUnique, operations } from './operations.ts';

/**
 * The object-storage broker's two documents, served word for word at `/v1/driver` and `/v1/driver/credentials`. Closed
 * everywhere: a declaration that is malformed, incomplete, unknown, Capsule-scoped, or that requires credentials of a
 * Capsule's own is refused, and the service that carries it does not start.
 */
const protocol = z.literal('platform.objectstore/v1', {
  error: 'only platform.objectstore/v1 is spoken here',
});

export const objectStoreDocument = z.strictObject({
  spec: z.literal(1),
  protocol,
  service: z.literal('objectstore'),
  scope: z.literal('space', {
    error: 'must be space: there is one service for the Space, and none is scoped to a Capsule',
  }),
  data_plane: z.literal('brokered', {
    error: 'must be brokered: no key of the store is handed to a workload',
  }),
  credential_policy: z.literal('managed-or-byok', {
    error: "must be managed-or-byok: a Capsule's own key is optional and never required",
  }),
  operations,
});

const label = z
  .string()
  .min(1)
  .max(80)
  .regex(/^[\x21-\x7e]+(?: [\x21-\x7e]+)*$/, 'not a line of text');
const identifier = z.string().regex(/^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/);
const size = z.number().int().min(1).max(1_024);

const field = z
  .strictObject({
    id: identifier,
    label,
    type: z.enum(['text', 'password', 'choice']),
    format: z.enum(Object.keys(formats), { error: 'not a format of v1' }),
    min: size,
    max: size,
    required: z.literal(true),
    secret: z.boolean(),
  })
  .superRefine((value, context) => {
    const format = formats[value.format];
    if (format === undefined) return;
    if (value.type !== format.type)
      context.addIssue({ code: 'custom', path: ['type'], message: `${value.format} is a ${format.type}` });
    if (value.secret !== format.secret)
      context.addIssue({
        code: 'custom',
        path: ['secret'],
        message: `${value.format} is ${format.secret ? '' : 'not '}secret`,
      });
    if (!isWithin(value, format))
      context.addIssue({
        code: 'custom',
        path: [value.max > format.max ? 'max' : 'min'],
        message: `the bounds are outside ${format.min} to ${format.max}`,
      });
  });

const form = z.strictObject({
  id: z.literal('s3-access-key'),
  label,
  fields: z
    .array(field)
    .refine((fields) => isUnique(fields.map(({ id }) => id)), 'fields repeat')
    .refine(
      (fields) => Object.keys(formats).every((format) => isOnce(format, fields)),
      'needs one field of each format: an access key and where it is good',
    ),
});

export const credentialForm = z.strictObject({
  protocol,
  form_version: z.literal(1),
  owner_scope: z.literal('capsule'),
  cardinality: z.literal('many'),
  max_sets: z.number().int().min(1).max(64),
  forms: z.tuple([form]),
});

export type CredentialForm = z.infer<typeof credentialForm>;

function isOnce(format: string, fields: readonly { readonly format: string }[]): boolean {
  return fields.filter((one) => one.format === format).length === 1;
}
