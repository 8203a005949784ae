import * as z from 'zod';
import { VERIFICATION_CHECKS } from '../errors.ts';

/** The parts that all OpenAPI documents have in common. */

const MEANING: Readonly<Record<number, string>> = {
  400: 'The request is not what the operation takes.',
  403: 'The one refusal: no credential, or not the one for this operation and Capsule.',
  415: 'The body is not application/json in UTF-8.',
  429: 'Too many requests; see Retry-After.',
  500: 'An error of the broker; the trace id finds it in its log.',
  503: 'Not now; what was begun is kept. See Retry-After.',
};

/** The document around its paths. */
export function openApiFrame(
  title: string,
  paths: object,
  securitySchemes: Readonly<Record<string, object>>,
): object {
  return {
    openapi: '3.1.0',
    info: {
      title,
      version: '1',
      description: 'Internal to the private network of a Space; never routed to the Internet.',
    },
    paths: { '/healthz': HEALTH, ...paths },
    components: { securitySchemes, schemas: { Error: ERROR } },
  };
}

/** The error answers by status; `meanings` are more specific descriptions. */
export function errorAnswers(statuses: readonly number[], meanings: Readonly<Record<number, string>>) {
  return Object.fromEntries(
    [...new Set(statuses)]
      .sort((a, b) => a - b)
      .map((status) => {
        const error = {
          description: meanings[status] ?? MEANING[status],
          content: jsonContent(status === 422 ? VERIFICATION_ERROR : { $ref: '#/components/schemas/Error' }),
        };
        const wait = { headers: { 'Retry-After': { schema: { type: 'integer', minimum: 1 } } } };
        return [String(status), status === 429 || status === 503 ? { ...error, ...wait } : error];
      }),
  );
}

export function jsonContent(schema: object) {
  return { 'application/json': { schema } };
}

export function schemaOf(schema: z.ZodType, io: 'input' | 'output' = 'output'): object {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { target: 'draft-2020-12', reused: 'inline', io });
  return rest;
}

export function bearer(description: string) {
  return { type: 'http', scheme: 'bearer', description };
}

const HEALTH = {
  get: {
    operationId: 'healthz',
    summary: 'Liveness only',
    security: [],
    responses: {
      '200': {
        description: 'The process lives.',
        content: jsonContent({
          type: 'object',
          properties: { status: { const: 'ok' } },
          required: ['status'],
          additionalProperties: false,
        }),
      },
    },
  },
};

const ERROR = {
  type: 'object',
  properties: {
    error: {
      type: 'object',
      properties: { code: { type: 'string' } },
      required: ['code'],
      additionalProperties: false,
    },
    trace_id: { type: 'string', pattern: '^[0-9a-f]{32}$' },
  },
  required: ['error', 'trace_id'],
  additionalProperties: false,
};

/** The only error with more than a code: it names the failed check of a candidate. */
const VERIFICATION_ERROR = {
  ...ERROR,
  properties: {
    ...ERROR.properties,
    error: {
      type: 'object',
      properties: { code: { const: 'verification_failed' }, check: { enum: VERIFICATION_CHECKS } },
      required: ['code', 'check'],
      additionalProperties: false,
    },
  },
};
