import { ServiceError } from '@space/broker-kit';
import { z } from 'zod';
import { BUCKETS } from '../address.ts';
import { MAX_KEY_BYTES, parseKey } from '../keys.ts';
import { MAX_KEYS } from '../store.ts';

/** Bodies of the data routes that have one in JSON; closed. */

/** A key as documents describe it; `parseKey` decides, and counts bytes. */
export const KEY = {
  type: 'string',
  minLength: 1,
  maxLength: MAX_KEY_BYTES,
  pattern:
    '^[^/\\\\\\x00-\\x1f\\x7f-\\x9f\\ufffe\\uffff]+(/[^/\\\\\\x00-\\x1f\\x7f-\\x9f\\ufffe\\uffff]+)*/?$',
  not: { pattern: '(^|/)\\.{1,2}(/|$)|%(2[FfEe5]|5[Cc]|00)' },
} as const;

const key = z
  .string()
  .meta(KEY)
  .transform((text, context) => {
    const parsed = parseKey(text);
    if (parsed !== undefined) return parsed;
    context.addIssue('not a key');
    return z.NEVER;
  });

const etag = z.string().regex(/^"[\x21\x23-\x7e]{1,128}"$/);
const header = z.string().max(1_024).meta({ pattern: '^[\\x20-\\x7e]*$' });

export const CREATE_UPLOAD = z.strictObject({
  key,
  content_type: header.optional(),
  content_disposition: header.optional(),
  content_encoding: header.optional(),
  content_language: header.optional(),
  cache_control: header.optional(),
  metadata: z.record(z.string().meta({ pattern: '^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$' }), header).optional(),
});

export const COMPLETE_UPLOAD = z.strictObject({
  parts: z
    .array(z.strictObject({ number: z.number().int().min(1).max(10_000), etag }))
    .min(1)
    .max(10_000)
    .refine(
      (parts) => parts.every(({ number }, i) => i === 0 || number > (parts[i - 1]?.number ?? 0)),
      'order',
    ),
});

export const COPY = z.strictObject({ from: key, from_bucket: z.enum(BUCKETS).optional(), to: key });

export const DELETE_MANY = z.strictObject({ keys: z.array(key).min(1).max(MAX_KEYS) });

export function parseBody<Schema extends z.ZodType>(schema: Schema, body: unknown): z.output<Schema> {
  const parsed = schema.safeParse(body);
  if (!parsed.success) throw new ServiceError('invalid_request', 'not the schema of this operation');
  return parsed.data;
}
