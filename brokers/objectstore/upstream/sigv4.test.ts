import { SignatureV4 } from '@smithy/signature-v4';
import { Secret } from '@space/broker-kit';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Sha256 } from '../testing/sha256.ts';
import { createSigner, encode, encodePath, sha256, UNSIGNED_PAYLOAD } from './sigv4.ts';

/** The AWS SDK's own signer, as a second opinion. */
const credentials = {
  accessKeyId: 'AKIDEXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY',
};

const theirs = new SignatureV4({
  credentials,
  region: 'eu-central-1',
  service: 's3',
  sha256: Sha256,
  uriEscapePath: false,
});
const ours = createSigner({
  origin: 'https://s3.example.net',
  region: 'eu-central-1',
  bucket: 'space',
  addressing: 'path',
  accessKeyId: new Secret(credentials.accessKeyId),
  secretAccessKey: new Secret(credentials.secretAccessKey),
});

const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }).filter((one) => one.isWellFormed());
const headerValue = fc.stringMatching(/^[!-~]([ -~]{0,20}[!-~])?$/);

test('requests are signed as the AWS SDK signs them', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom('GET', 'PUT', 'POST', 'DELETE', 'HEAD'),
      fc.array(text, { minLength: 1, maxLength: 4 }),
      // Theirs keeps a query in an object and loses a parameter of this name.
      fc.dictionary(
        text.filter((name) => name !== '__proto__'),
        text,
        { maxKeys: 4 },
      ),
      fc.dictionary(fc.stringMatching(/^x-amz-meta-[a-z0-9]{1,8}$/), headerValue, { maxKeys: 3 }),
      fc.option(fc.string()),
      fc.date({ min: new Date('2000-01-01'), max: new Date('2099-12-31'), noInvalidDate: true }),
      async (method, segments, query, headers, body, now) => {
        const path = `/space/${encodePath(segments.join('/'))}`;
        const payload = body === null ? UNSIGNED_PAYLOAD : sha256(body);
        const all = { host: 's3.example.net', 'content-type': 'text/plain', ...headers };
        const pairs = Object.entries(query).map(([name, value]) => [encode(name), encode(value)] as const);
        const mine = ours({ method, path, query: pairs, headers: Object.entries(all), payload }, now);
        const request = {
          method,
          protocol: 'https:',
          hostname: 's3.example.net',
          path,
          query,
          headers: { ...all, 'x-amz-content-sha256': payload },
        };
        const signed = await theirs.sign(request, { signingDate: now });
        expect(mine['authorization']).toBe(signed.headers['authorization']);
      },
    ),
    { numRuns: 300 },
  );
});
