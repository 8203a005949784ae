import { z } from 'zod';
import { CONTRACT, OPERATIONS, type OperationName } from './contract.ts';

/** The errors that an operation may answer with, beside those of the edge. */
const ERRORS: Readonly<Record<OperationName, readonly number[]>> = {
  'capsule.provision': [409],
  'capsule.finalize': [404, 409],
  'capsule.app.create': [409],
  'capsule.app.drop': [404],
  'capsule.drop': [],
};

const EDGE_ERRORS = [400, 403, 413, 415, 429, 500, 503] as const;

const MEANING: Readonly<Record<number, string>> = {
  400: 'The request is not what the operation takes.',
  403: 'The one refusal: no credential, or not the one for this operation and Capsule.',
  404: 'Nothing of that name was ever created.',
  409: 'The state of the Capsule or database does not allow it.',
  413: 'The body is over 16 KiB.',
  415: 'The body is not application/json in UTF-8.',
  429: 'Too many requests; see Retry-After.',
  500: 'An error of the broker; the trace id finds it in its log.',
  503: 'Not now; what was begun is kept. See Retry-After.',
};

const SUMMARY: Readonly<Record<OperationName, string>> = {
  'capsule.provision': "Register a Capsule's principal and make the Capsule's own database",
  'capsule.finalize': 'Release the id of a dropped Capsule',
  'capsule.app.create': 'Make or find the database of one workload',
  'capsule.app.drop': "Drop one workload's database and role",
  'capsule.drop': 'Drop all databases of the Capsule and retire its principal',
};

function json(schema: object) {
  return { 'application/json': { schema } };
}

function schemaOf(schema: z.ZodType): object {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { target: 'draft-2020-12', reused: 'inline' });
  return rest;
}

function answers(statuses: readonly number[]) {
  return Object.fromEntries(
    [...statuses]
      .sort((a, b) => a - b)
      .map((status) => {
        const error = { description: MEANING[status], content: json({ $ref: '#/components/schemas/Error' }) };
        const wait = { headers: { 'Retry-After': { schema: { type: 'integer', minimum: 1 } } } };
        return [String(status), status === 429 || status === 503 ? { ...error, ...wait } : error];
      }),
  );
}

function operation(name: OperationName) {
  const { request, response, authority } = CONTRACT[name];
  return {
    operationId: name,
    summary: SUMMARY[name],
    security: [{ [authority]: [] }],
    requestBody: { required: true, content: json(schemaOf(request)) },
    responses: {
      '200': { description: 'Done, or found done.', content: json(schemaOf(response)) },
      ...answers([...EDGE_ERRORS, ...ERRORS[name]]),
    },
  };
}

/** OpenAPI 3.1, made from the contract that the broker parses requests with. */
function openApiDocument(): object {
  const bearer = (description: string) => ({ type: 'http', scheme: 'bearer', description });
  return {
    openapi: '3.1.0',
    info: {
      title: 'Database broker of a Space',
      version: '1',
      description: 'Internal to the private network of a Space; never routed to the Internet.',
    },
    paths: {
      '/healthz': {
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
      },
      '/v1/driver': {
        get: {
          operationId: 'driver',
          summary: 'The driver document of the image, byte for byte',
          security: [],
          responses: { '200': { description: 'The document.', content: json({ type: 'object' }) } },
        },
      },
      ...Object.fromEntries(OPERATIONS.map((name) => [CONTRACT[name].path, { post: operation(name) }])),
    },
    components: {
      securitySchemes: {
        provisioner: bearer('The provisioner token, spc_prv_…'),
        capsule: bearer("The Capsule's own principal, spc_dbp_…"),
      },
      schemas: {
        Error: {
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
        },
      },
    },
  };
}

/** For `scripts/generate.ts`. */
export function generated(): readonly { path: string; text: string }[] {
  const text = `${JSON.stringify(openApiDocument(), null, 2)}\n`;
  return [{ path: 'docs/wire/db-broker.openapi.generated.json', text }];
}
