import { z } from 'zod';

/**
 * A driver document: what a service of the Space offers, served word for word at `/v1/driver`. Closed everywhere,
 * so a document that is malformed, incomplete, Capsule-scoped, or demands credentials of a Capsule's own is no
 * driver document, and the service that carries it does not start.
 */
const field = z.string().regex(/^[a-z]+(?:_[a-z]+)*$/);

const operation = z.strictObject({
  name: z.string().regex(/^[a-z]+(?:\.[a-z]+)+$/),
  method: z.literal('POST'),
  path: z.string().regex(/^\/v1(?:\/[a-z]+)+$/),
  authority: z.enum(['provisioner', 'capsule']),
  request: z.array(field).min(1).refine(isUnique, 'fields repeat'),
  response: z.array(field).min(1).refine(isUnique, 'fields repeat'),
});

export const driverDocument = z.strictObject({
  spec: z.literal(1),
  service: z.literal('postgres'),
  scope: z.literal('space'),
  operations: z
    .array(operation)
    .min(1)
    .refine((operations) => isUnique(operations.map(({ name }) => name)), 'operations repeat'),
});

function isUnique(values: readonly string[]): boolean {
  return new Set(values).size === values.length;
}
