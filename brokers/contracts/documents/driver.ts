import { type Contract, operationOf, operationsOf } from '../contract.ts';

/** The operations in the form of a driver document. */
export function listedOperations(contract: Contract) {
  return operationsOf(contract).flatMap((name) => {
    const { path, authority, request, response, unlisted } = operationOf(contract, name);
    if (unlisted) return [];
    const fields = { request: Object.keys(request.shape), response: Object.keys(response.shape) };
    return [{ name, method: 'POST' as const, path, authority, ...fields }];
  });
}

const LINE_WIDTH = 110;

/** Formatted JSON. Clients compare these exact bytes. A list of names is on one line if it fits. */
export function printed(value: unknown): string {
  const expanded = /^( *)("[a-z_]+": )\[\n((?: *"[^"\n]*",?\n)+) *\](,?)$/gm;
  const text = JSON.stringify(value, null, 2).replace(expanded, (whole, indent, key, items, comma) => {
    const line = `${indent}${key}[${items.trim().replaceAll(/\n\s*/g, ' ')}]${comma}`;
    return line.length > LINE_WIDTH ? whole : line;
  });
  return `${text}\n`;
}
