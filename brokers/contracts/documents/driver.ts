import { type Contract, operationOf, operationsOf } from '../contract.ts';

/** The operations as a driver document tells them. */
export function listedOperations(contract: Contract) {
  return operationsOf(contract).flatMap((name) => {
    const { path, authority, request, response, unlisted } = operationOf(contract, name);
    if (unlisted) return [];
    const fields = { request: Object.keys(request.shape), response: Object.keys(response.shape) };
    return [{ name, method: 'POST' as const, path, authority, ...fields }];
  });
}
