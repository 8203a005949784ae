import * as z from 'zod';

/** The operations of a driver document, closed everywhere. */

const field = z.string().regex(/^[a-z]+(?:_[a-z]+)*$/);

const operation = z.strictObject({
  name: z.string().regex(/^[a-z]+(?:\.[a-z]+)+$/),
  method: z.literal('POST'),
  path: z.string().regex(/^\/v1(?:\/[a-z]+)+$/),
  authority: z.enum(['provisioner', 'capsule']),
  request: z.array(field).min(1).refine(isUnique, 'fields repeat'),
  response: z.array(field).min(1).refine(isUnique, 'fields repeat'),
});

export const operations = z
  .array(operation)
  .min(1)
  .refine((all) => isUnique(all.map(({ name }) => name)), 'operations repeat');

export function isUnique(values: readonly string[]): boolean {
  return new Set(values).size === values.length;
}
