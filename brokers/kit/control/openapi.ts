import { type Contract, contractOf, operationsOf } from './contract.ts';
import { bearer, errorAnswers, jsonContent, openApiFrame, schemaOf } from './openapi-parts.ts';

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
        responses: { '200': { description: 'The document.', content: jsonContent({ type: 'object' }) } },
      },
    },
  ]);
  const operationPaths = operationsOf(contract).map((name) => {
    const { path } = contractOf(contract, name);
    return [path, { post: operationOf(options, name) }];
  });
  return openApiFrame(
    title,
    { ...Object.fromEntries(documentPaths), ...Object.fromEntries(operationPaths), ...options.paths },
    {
      provisioner: bearer('The provisioner token, spc_prv_…'),
      capsule: bearer(`The Capsule's own principal, ${options.principalPrefix}…`),
    },
  );
}

function operationOf<C extends Contract>(options: OpenApiOptions<C>, name: keyof C & string) {
  const { contract, summaries, errors, meanings } = options;
  const { request, response, authority } = contractOf(contract, name);
  return {
    operationId: name,
    summary: summaries[name],
    security: [{ [authority]: [] }],
    requestBody: { required: true, content: jsonContent(schemaOf(request)) },
    responses: {
      '200': { description: 'Done, or found done.', content: jsonContent(schemaOf(response)) },
      ...errorAnswers([...EDGE_ERRORS, ...errors[name]], meanings),
    },
  };
}
