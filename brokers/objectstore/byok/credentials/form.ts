import { z } from 'zod';
import { formats } from '../../../../manifests/driver/formats.ts';
import form from '../../../../manifests/driver/objectstore-credentials.json' with { type: 'json' };

/** What a submission may hold in this field, by the form that is served. Throws for a field that the form lacks. */
function fieldOf(id: string) {
  const field = form.forms[0]?.fields.find((one) => one.id === id);
  const format = field && formats[field.format];
  if (field === undefined || format === undefined) throw new Error(`the credential form has no field ${id}`);
  const { pattern, refused } = format;
  const text = z.string().min(field.min).max(field.max).regex(pattern);
  return refused === undefined ? text : text.refine((value) => !refused.test(value), 'not in its format');
}

/** The values of the form `s3-access-key`, closed. */
export const fields = z.strictObject({
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
