import { type Contract, type Operation, operationOf, operationsOf } from '../contract.ts';
import { STATUS } from '../errors.ts';
import { bearer, errorAnswers, jsonContent, openApiFrame, schemaOf } from './openapi-parts.ts';

const EDGE_ERRORS = [400, 403, 413, 415, 429, 500, 503] as const;

/** The OpenAPI 3.1 document of a contract, from the same schemas that parse requests. */
export function openApiDocument(contract: Contract): object {
  const { capsule, observer } = contract.audiences;
  const documents = Object.entries(contract.documents).map(([path, { operation, summary }]) => [
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
  const operations = operationsOf(contract).map((name) => {
    const operation = operationOf(contract, name);
    return [operation.path, { post: described(contract, name, operation) }];
  });
  return openApiFrame(
    contract.title,
    { ...Object.fromEntries(documents), ...Object.fromEntries(operations) },
    {
      provisioner: bearer('The provisioner token, spc_prv_…'),
      ...(capsule === undefined ? {} : { capsule: bearer(`The Capsule's own principal, spc_${capsule}_…`) }),
      ...(observer === undefined ? {} : { observer: bearer(`The token of who may look, spc_${observer}_…`) }),
    },
  );
}

const KIB = 1024;

function described({ meanings, longest }: Contract, name: string, operation: Operation) {
  const { summary, authority, request, response, errors } = operation;
  return {
    operationId: name,
    summary,
    security: [{ [authority]: [] }],
    requestBody: { required: true, content: jsonContent(schemaOf(request)) },
    responses: {
      '200': { description: 'Done, or found done.', content: jsonContent(schemaOf(response)) },
      ...errorAnswers([...EDGE_ERRORS, ...errors.map((code) => STATUS[code])], {
        413: `The body is over ${longest.request / KIB} KiB.`,
        ...meanings,
      }),
    },
  };
}
