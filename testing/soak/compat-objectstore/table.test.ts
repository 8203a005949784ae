import { expect, test } from 'vitest';
import { CASES } from '../../../brokers/objectstore/api/s3/testing/cases/index.ts';
import manifest from '../../../brokers/objectstore/package.json' with { type: 'json' };
import { CLIENTS } from './clients.ts';
import { tableOfPage } from './table.ts';

test("the page's table of S3 clients names those that are tried, with the versions that they are pinned to", () => {
  const rows = tableOfPage();
  expect(rows.map(({ client }) => client)).toEqual([
    'AWS SDK for JavaScript',
    ...CLIENTS.map(({ name }) => name),
  ]);
  for (const { name, version } of CLIENTS)
    if (version !== undefined)
      expect(rows.find(({ client }) => client === name)).toMatchObject({ client: name, version });
});

test('the table of cases is as long as the page says', () => {
  const version = manifest.devDependencies['@aws-sdk/client-s3'];
  const rows = tableOfPage();
  expect(rows).toContainEqual({ client: 'AWS SDK for JavaScript', version, cases: CASES.length });
  expect(rows.find(({ client }) => client === 'boto3')).toMatchObject({ cases: CASES.length });
});
