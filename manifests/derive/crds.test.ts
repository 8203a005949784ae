import { expect, test } from 'vitest';
import { KINDS } from './crds.ts';

interface Schema {
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
}

/** The paths of fields below this one that say nothing of themselves. */
function silent(path: string, { properties = {}, items }: Schema): string[] {
  const below = items === undefined ? [] : silent(`${path}[]`, items);
  const fields = Object.entries(properties).flatMap(([name, field]) => {
    const here = `${path}.${name}`;
    return [...(field.description === undefined ? [here] : []), ...silent(here, field)];
  });
  return [...fields, ...below];
}

test.each(KINDS)('kubectl explain says what each field of the status of a $kind is', ({ status }) => {
  expect(silent('status', status as Schema)).toEqual([]);
});
