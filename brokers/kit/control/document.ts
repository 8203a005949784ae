import { readFileSync } from 'node:fs';
import type { z } from 'zod';
import { ConfigError } from '../config.ts';
import { parseStrictJson } from '../json.ts';

/** Reads a document of the image with a strict schema. Returns also its exact bytes, since these are served. */
export function loadDocument<Schema extends z.ZodType>(
  path: string,
  schema: Schema,
  what: string,
): { readonly bytes: Buffer; readonly value: z.infer<Schema> } {
  let bytes: Buffer;
  let value: unknown;
  try {
    bytes = readFileSync(path);
    value = parseStrictJson(bytes);
  } catch (error) {
    throw new ConfigError(`the ${what} cannot be read`, { cause: error });
  }
  const document = schema.safeParse(value);
  if (document.success) return { bytes, value: document.data };
  const where = document.error.issues.map((issue) => `/${issue.path.join('/')}: ${issue.message}`);
  throw new ConfigError(`the ${what} is refused: ${where.join('; ')}`);
}
