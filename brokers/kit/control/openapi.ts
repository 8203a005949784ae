import * as z from 'zod';
import { VERIFICATION_CHECKS } from '../errors.ts';
import { type Contract, contractOf, operationsOf } from './contract.ts';

export interface OpenApiOptions<C extends Contract> {
  readonly contract: C;
  readonly title: string;
  readonly summaries: Readonly<Record<keyof C, string>>;
  /** The errors that an operation may answer with, beside those of the edge. */
  readonly errors: Readonly<Record<keyof C, readonly number[]>>;
  /** What a status means here, where it means more than everywhere. */
  readonly meanings: Readonly<Record<number, string>>;
  /** Documents that are served word for word, by path. */
  readonly documents: Readonly<Record<`/v1/${string}`, { operation: string; summary: string }>>;
  /** How the tokens of a Capsule's principal begin: `spc_dbp_`. */
  readonly principalPrefix: string;
  /** Paths beside the contract, as they are. */
  readonly paths?: Readonly<Record<string, object>>;
}

const EDGE_ERRORS = [400, 403, 413, 415, 429, 500, 503] as const;

const MEANING: Readonly<Record<number, string>> = {
  400: 'The request is not what the operation takes.',
  403: 'The one refusal: no credential, or not the one for this operation and Capsule.',
  413: 'The body is over 16 KiB.',
  415: 'The body is not application/json in UTF-8.',
  429: 'Too many requests; see Retry-After.',
  500: 'An error of the broker; the trace id finds it in its log.',
  503: 'Not now; what was begun is kept. See Retry-After.',
};

/** OpenAPI 3.1, made from the contract that the broker parses requests with. */
export function openApiDocument<C extends Contract>(options: OpenApiOptions<C>): object {
  const { contract, documents, title } = options;
  const documentPaths = Object.entries(documents).map(([path, { operation, summary }]) => [
    path,
    {
      get: {
        operationId: operation,
        summary,
        security: [],
        responses: { '200': { description: 'The document.', content: json({ type: 'object' }) } },
      },
    },
  ]);
  const operationPaths = operationsOf(contract).map((name) => {
    const { path } = contractOf(contract, name);
    return [path, { post: operationOf(options, name) }];
  });
  return {
    openapi: '3.1.0',
    info: {
      title,
      version: '1',
      description: 'Internal to the private network of a Space; never routed to the Internet.',
    },
    paths: {
      '/healthz': HEALTH,
      ...Object.fromEntries(documentPaths),
      ...Object.fromEntries(operationPaths),
      ...options.paths,
    },
    components: {
      securitySchemes: {
        provisioner: bearer('The provisioner token, spc_prv_…'),
        capsule: bearer(`The Capsule's own principal, ${options.principalPrefix}…`),
      },
      schemas: { Error: ERROR },
    },
  };
}

function operationOf<C extends Contract>(options: OpenApiOptions<C>, name: keyof C & string) {
  const { contract, summaries, errors, meanings } = options;
  const { request, response, authority } = contractOf(contract, name);
  return {
    operationId: name,
    summary: summaries[name],
    security: [{ [authority]: [] }],
    requestBody: { required: true, content: json(schemaOf(request)) },
    responses: {
      '200': { description: 'Done, or found done.', content: json(schemaOf(response)) },
      ...answers([...EDGE_ERRORS, ...errors[name]], meanings),
    },
  };
}

function answers(statuses: readonly number[], meanings: Readonly<Record<number, string>>) {
  return Object.fromEntries(
    [...new Set(statuses)]
      .sort((a, b) => a - b)
      .map((status) => {
        const error = {
          description: meanings[status] ?? MEANING[status],
          content: json(status === 422 ? VERIFICATION_ERROR : { $ref: '#/components/schemas/Error' }),
        };
        const wait = { headers: { 'Retry-After': { schema: { type: 'integer', minimum: 1 } } } };
        return [String(status), status === 429 || status === 503 ? { ...error, ...wait } : error];
      }),
  );
}

function json(schema: object) {
  return { 'application/json': { schema } };
}

function schemaOf(schema: z.ZodType): object {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { target: 'draft-2020-12', reused: 'inline' });
  return rest;
}

function bearer(description: string) {
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
        content: json({
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

/** The one error that tells more than its code: what a candidate failed at. */
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
