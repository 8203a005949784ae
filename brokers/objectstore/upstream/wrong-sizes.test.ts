import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ScriptedServer, startScripted } from '../testing/scripted.ts';
import type { S3Client } from './types.ts';

/** Lists of a server that says wrongly how large something is. */

let scripted: ScriptedServer;
let s3: S3Client;
let size: string;
beforeAll(async () => {
  scripted = await startScripted((request, response) => {
    const isParts = request.url?.includes('uploadId') === true;
    const item = `<Key>key</Key><PartNumber>1</PartNumber><ETag>"tag"</ETag>${size}`;
    response.end(
      isParts
        ? `<ListPartsResult><Part>${item}</Part></ListPartsResult>`
        : `<ListBucketResult><Contents>${item}</Contents></ListBucketResult>`,
    );
  });
  ({ s3 } = scripted);
});
afterAll(() => scripted?.close());

const sizes = async () => {
  const { objects } = await s3.list({ prefix: '', limit: 10 });
  const { parts } = await s3.listParts('key', 'id', { after: 0, limit: 10 });
  return [objects[0]?.size, parts[0]?.size];
};

test.each([0, 5, 5 * 1024 ** 4])('a size of %i bytes is taken as it is', async (bytes) => {
  size = `<Size>${bytes}</Size>`;
  expect(await sizes()).toEqual([bytes, bytes]);
});

test('what has no size is empty', async () => {
  size = '';
  expect(await sizes()).toEqual([0, 0]);
});

describe.each([
  '<Size/>',
  '<Size>-5</Size>',
  '<Size>many</Size>',
  '<Size>1e3</Size>',
  '<Size>9999999999999999999</Size>',
])('a list with %j', (text) => {
  test('is an error of the server, of objects and of parts', async () => {
    size = text;
    const malformed = { kind: 'answered', status: 200, code: 'MalformedAnswer' };
    await expect(s3.list({ prefix: '', limit: 10 })).rejects.toMatchObject(malformed);
    await expect(s3.listParts('key', 'id', { after: 0, limit: 10 })).rejects.toMatchObject(malformed);
  });
});
