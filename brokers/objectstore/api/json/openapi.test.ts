import { expect, test } from 'vitest';
import { dataDocument } from './openapi.ts';
import { matchRoute } from './routes.ts';

/** A value for each parameter of a path. */
const PARTS: Readonly<Record<string, string>> = {
  bucket: 'data',
  key: 'a/b',
  upload_id: 'f'.repeat(32),
  number: '7',
};

interface Operation {
  readonly operationId: string;
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
}

test('the document names every route as it is matched, with the parameters that it knows', () => {
  const { paths } = dataDocument() as { paths: Record<string, Record<string, Operation>> };
  let count = 0;
  for (const [template, methods] of Object.entries(paths)) {
    const path = template.replace(/\{(\w+)\}/g, (_, name) => PARTS[name] ?? '');
    for (const [method, { operationId, parameters = [] }] of Object.entries(methods)) {
      const matched = matchRoute(method.toUpperCase(), path, () => undefined);
      expect(matched.operation).toBe(operationId);
      expect(parameters.filter((one) => one.in === 'query').map(({ name }) => name)).toEqual(
        matched.parameters,
      );
      count += 1;
    }
    const allowed: string[] = [];
    const allow = (list: string) => allowed.push(...list.toLowerCase().split(', '));
    expect(() => matchRoute('PATCH', path, allow)).toThrow();
    expect(allowed.sort()).toEqual(Object.keys(methods).sort());
  }
  expect(count).toBe(15);
});
