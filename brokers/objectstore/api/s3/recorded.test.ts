import { afterAll, beforeAll, expect, test } from 'vitest';
import { newAssistant } from '../../testing/assistant.ts';
import { type Fixture, openFixture } from '../../testing/fixture.ts';
import { keysOf, type S3Keys } from './testing/clients.ts';
import { type Said, sendSigned } from './testing/signed.ts';

/**
 * Requests as clients put them that no bench of ours runs: their headers and parameters, signed anew. What they get is
 * what they need to go on.
 */

let fixture: Fixture;
let base: string;
let keys: S3Keys;

beforeAll(async () => {
  fixture = await openFixture();
  base = fixture.broker.dataUrl;
  const me = await newAssistant(fixture.broker);
  keys = await keysOf(me);
  await me.put('there', 'hello');
  await me.put('in/a%20folder', 'hello');
});
afterAll(() => fixture?.close());

const RETRIES = {
  'amz-sdk-invocation-id': 'b0a5d3c4-8f2e-4a55-9c1d-0f2b7f1f8a11',
  'amz-sdk-request': 'attempt=1; max=3',
};
/** `hello` in one chunk, with its CRC-32 behind it. */
const CODED = '5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n';
const TRAILER = {
  'content-encoding': 'aws-chunked',
  'x-amz-content-sha256': 'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
  'x-amz-decoded-content-length': '5',
  'x-amz-trailer': 'x-amz-checksum-crc32',
  'x-amz-sdk-checksum-algorithm': 'CRC32',
};
const put = (key: string, headers: Readonly<Record<string, string>>, body = 'hello', id = true): Said => ({
  method: 'PUT',
  path: `/data/${key}`,
  ...(id ? { query: { 'x-id': 'PutObject' } } : {}),
  headers,
  body,
});
const get = (
  headers: Readonly<Record<string, string>>,
  query: Readonly<Record<string, string>> = {},
): Said => ({
  method: 'GET',
  path: '/data/there',
  query,
  headers,
});

test.each<readonly [client: string, said: Said]>([
  [
    'the AWS SDK for C++ writes',
    put(
      'cpp',
      { ...RETRIES, 'x-amz-api-version': '2006-03-01', 'content-md5': 'XUFAKrxLKna5cZ2REBfFkg==' },
      'hello',
      false,
    ),
  ],
  [
    'the AWS SDK for C++ reads',
    get({ ...RETRIES, 'x-amz-api-version': '2006-03-01', 'x-amz-checksum-mode': 'ENABLED' }),
  ],
  [
    'the AWS SDK for .NET writes',
    put('dotnet', { ...RETRIES, ...TRAILER, 'content-type': 'text/plain' }, CODED, false),
  ],
  ['the AWS SDK for .NET reads', get({ ...RETRIES, 'x-amz-checksum-mode': 'ENABLED' })],
  [
    'the AWS SDK for Rust writes',
    put('rust', { ...RETRIES, ...TRAILER, 'x-amz-user-agent': 'aws-sdk-rust/1.3.9 ua/2.1' }, CODED),
  ],
  [
    'the AWS SDK for Rust reads',
    get({ ...RETRIES, 'x-amz-user-agent': 'aws-sdk-rust/1.3.9 ua/2.1' }, { 'x-id': 'GetObject' }),
  ],
  ['the older AWS SDK for Java reads', get({ 'x-amz-te': 'append-md5' })],
  ['the AWS SDK for Ruby reads', get({ 'x-amz-te': 'append-md5', 'accept-encoding': '' })],
  [
    'the AWS SDK for PHP, and Flysystem with it, writes',
    put('php', {
      'x-amz-acl': 'private',
      'x-amz-user-agent': 'aws-sdk-php/3.371',
      'x-amz-sdk-checksum-algorithm': 'CRC32',
      'x-amz-checksum-crc32': 'NhCmhg==',
    }),
  ],
  [
    'the AWS SDK for PHP, and Flysystem with it, copies',
    put('php-copy', { 'x-amz-copy-source': '/data/in%2Fa%20folder', 'x-amz-metadata-directive': 'COPY' }, ''),
  ],
  [
    'a program for JavaScript copies as the documentation of its SDK says',
    put('js-copy', { 'x-amz-copy-source': 'data%2Fin%2Fa%20folder' }, ''),
  ],
  [
    "Hadoop's S3A writes",
    put('hadoop/file', {
      ...RETRIES,
      'x-amz-server-side-encryption': 'AES256',
      'x-amz-acl': 'bucket-owner-full-control',
      'x-amz-storage-class': 'STANDARD',
      'content-type': 'application/octet-stream',
    }),
  ],
  [
    "Hadoop's S3A marks a directory",
    put('hadoop/dir/', { ...RETRIES, 'content-type': 'application/x-directory' }, ''),
  ],
  [
    "Terraform's backend writes its state",
    put('terraform', {
      ...RETRIES,
      'x-amz-server-side-encryption': 'AES256',
      'x-amz-acl': 'private',
      'content-type': 'application/json',
      'if-none-match': '*',
    }),
  ],
  [
    'a container registry writes',
    put('registry', {
      'x-amz-acl': 'private',
      'x-amz-server-side-encryption': 'AES256',
      'x-amz-storage-class': 'STANDARD',
    }),
  ],
  ['DuckDB reads the end of a file', get({ range: 'bytes=-3', 'x-amz-request-payer': 'requester' })],
])('%s', async (_client, said) => {
  const { status, text } = await sendSigned(base, keys, said);
  expect([status < 300 ? 'done' : status, status < 300 ? '' : text]).toEqual(['done', '']);
  if (said.method === 'GET') expect('hello'.endsWith(text)).toBe(true);
});

test.each([
  ['in%252Fa%2520folder', 'InvalidArgument'],
  ['in/../in/a%20folder', 'InvalidArgument'],
  ['in%2F..%2Fin%2Fa%20folder', 'InvalidArgument'],
  ['in%2F%2Fa%20folder', 'InvalidArgument'],
  ['in%2Fa%20folder%00', 'InvalidArgument'],
  ['in%2Fa%20folder%3FversionId=1', 'NoSuchKey'],
  ['in%2Fa folder', 'InvalidArgument'],
])('a source is decoded once, and has to be a key then: %s', async (source, code) => {
  for (const text of [`/data/${source}`, `data%2F${source}`]) {
    const answer = await sendSigned(base, keys, put('to', { 'x-amz-copy-source': text }, '', false));
    expect(answer.code).toBe(code);
  }
});
