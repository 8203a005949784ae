import { type JsonLimits, ServiceError } from '@space/broker-kit';
import { z } from 'zod';
import { BUCKETS, MAX_KEY_BYTES, parseKey } from '../../objects/object-key.ts';
import { MAX_KEYS } from '../../objects/types.ts';
import { type InTurn, mapInTurns } from '../../upstream/sinks.ts';

/** Strict schemas of the JSON bodies of data routes. */

/** A key in the OpenAPI document. The real check is `parseKey`, which counts bytes. */
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

/** The schema of a body, and how much is parsed before it is checked. */
export interface BodyOf<Schema extends z.ZodType> {
  readonly schema: Schema;
  readonly limits: JsonLimits;
  /** The body's list, whose elements are checked one by one until the first invalid one. */
  readonly list?: { readonly name: string; readonly element: z.ZodType } | undefined;
}

/** The most members of an object; the schema refuses unknown names. */
const MOST_MEMBERS = 16;

export const CREATE_UPLOAD = {
  schema: z.strictObject({
    key,
    content_type: header.optional(),
    content_disposition: header.optional(),
    content_encoding: header.optional(),
    content_language: header.optional(),
    cache_control: header.optional(),
    metadata: z
      .record(z.string().meta({ pattern: '^[a-z0-9_]([a-z0-9._-]{0,62}[a-z0-9_])?$' }), header)
      .optional(),
  }),
  // Metadata of 2 KiB cannot contain more names.
  limits: { elements: 1, members: 2_048 },
};

const MAX_PARTS = 10_000;
const part = z.strictObject({ number: z.number().int().min(1).max(MAX_PARTS), etag });

export const COMPLETE_UPLOAD = {
  schema: z.strictObject({
    parts: z
      .array(part)
      .min(1)
      .max(MAX_PARTS)
      .refine(
        (parts) => parts.every(({ number }, i) => i === 0 || number > (parts[i - 1]?.number ?? 0)),
        'order',
      ),
  }),
  limits: { elements: MAX_PARTS, members: MOST_MEMBERS },
  list: { name: 'parts', element: part },
};

export const COPY = {
  schema: z.strictObject({ from: key, from_bucket: z.enum(BUCKETS).optional(), to: key }),
  limits: { elements: 1, members: MOST_MEMBERS },
};

export const DELETE_MANY = {
  schema: z.strictObject({ keys: z.array(key).min(1).max(MAX_KEYS) }),
  limits: { elements: MAX_KEYS, members: MOST_MEMBERS },
  list: { name: 'keys', element: key },
};

export async function parseBody<Schema extends z.ZodType>(
  { schema, list }: BodyOf<Schema>,
  body: Readonly<Record<string, unknown>>,
  inTurn: InTurn,
): Promise<z.output<Schema>> {
  const elements: unknown = list === undefined ? [] : body[list.name];
  if (!Array.isArray(elements)) throw invalid();
  const judge = (one: unknown) => {
    if (list?.element.safeParse(one).success !== true) throw invalid();
  };
  await mapInTurns(elements, judge, inTurn);
  const parsed = await inTurn(() => schema.safeParse(body));
  if (!parsed.success) throw invalid();
  return parsed.data;
}

function invalid(): ServiceError {
  return new ServiceError('invalid_request', 'not the schema of this operation');
}
