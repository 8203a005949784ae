import * as z from 'zod';
import type { Contract, OperationName } from '../contract.ts';
import { type AnswerOf, operationOf } from '../contract.ts';
import type { Answer } from './transport.ts';

/** The meaning of an answer: the result, a refusal with the service's own code, or something else. */
export type Understood<T> =
  | { readonly kind: 'done'; readonly value: T }
  | { readonly kind: 'refused'; readonly code: string }
  | { readonly kind: 'foreign' };

const Refusal = z.object({ error: z.object({ code: z.string().regex(/^[a-z_]{1,40}$/) }) });

/** Interprets an answer by its contract. */
export function understand<C extends Contract, Name extends OperationName<C>>(
  contract: C,
  name: Name,
  { status, body }: Answer,
): Understood<AnswerOf<C, Name>> {
  const json = parseJson(body);
  if (status !== 200) {
    const refusal = Refusal.safeParse(json);
    return refusal.success ? { kind: 'refused', code: refusal.data.error.code } : { kind: 'foreign' };
  }
  const parsed = open(operationOf(contract, name).response).safeParse(json);
  return parsed.success ? { kind: 'done', value: parsed.data as AnswerOf<C, Name> } : { kind: 'foreign' };
}

/** The same schema, but unknown fields, which a newer service may add, are dropped and not refused. */
function open(schema: z.core.$ZodType): z.ZodType {
  if (schema instanceof z.ZodObject)
    return z.object(
      Object.fromEntries(Object.entries(schema.shape).map(([name, field]) => [name, open(field)])),
    );
  if (schema instanceof z.ZodArray) return z.array(open(schema.element));
  return schema as z.ZodType;
}

function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    return undefined;
  }
}
