import { createHash, randomBytes } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { ServiceError } from '@space/broker-kit';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { hmac, scopeText, signingKey } from '../../upstream/sigv4.ts';
import { ChunkedBody } from './aws-chunked-decoder.ts';
import { VerifiedBody } from './body.ts';
import { createChecksum } from './checksums.ts';
import type { Verified } from './signature.ts';

const scope = { day: '20261121', region: 'us-east-1' };
const signed: Verified = {
  key: signingKey('secret', scope),
  scope,
  time: '20261121T120000Z',
  signature: 'f'.repeat(64),
};

const sha256 = (data: string | Buffer) => createHash('sha256').update(data).digest('hex');

/** Codes a body as AWS's documentation of chunked uploads says, independently of what decodes it. */
function code(chunks: readonly Buffer[], trailer: string | undefined, isSigned: boolean): Buffer {
  let previous = signed.signature;
  const sign = (algorithm: string, digests: string) => {
    previous = hmac(
      signed.key,
      [algorithm, signed.time, scopeText(scope), previous, digests].join('\n'),
    ).toString('hex');
    return previous;
  };
  const parts: (Buffer | string)[] = [];
  for (const chunk of [...chunks, Buffer.alloc(0)]) {
    const signature = isSigned
      ? `;chunk-signature=${sign('AWS4-HMAC-SHA256-PAYLOAD', `${sha256('')}\n${sha256(chunk)}`)}`
      : '';
    parts.push(`${chunk.length.toString(16)}${signature}\r\n`);
    if (chunk.length > 0) parts.push(chunk, '\r\n');
  }
  if (trailer !== undefined) {
    parts.push(`${trailer}\r\n`);
    if (isSigned)
      parts.push(`x-amz-trailer-signature:${sign('AWS4-HMAC-SHA256-TRAILER', sha256(`${trailer}\n`))}\r\n`);
  }
  parts.push('\r\n');
  return Buffer.concat(parts.map((part) => Buffer.from(part)));
}

async function decode(pieces: readonly Buffer[], isSigned: boolean, trailers: readonly string[] = []) {
  const found = new Map<string, string>();
  const stream = new ChunkedBody({
    signed: isSigned ? signed : undefined,
    trailers: new Set(trailers),
    onTrailers: (all) => {
      for (const [name, value] of all) found.set(name, value);
    },
  });
  const whole = buffer(stream);
  whole.catch(() => undefined);
  for (const piece of pieces) stream.write(piece);
  stream.end();
  return { body: await whole, found };
}

const chunks = fc.array(
  fc.uint8Array({ minLength: 1, maxLength: 50 }).map((bytes) => Buffer.from(bytes)),
  {
    maxLength: 5,
  },
);

test('a body is decoded completely, signed or not, with a trailer or not, wherever it is split', async () => {
  await fc.assert(
    fc.asyncProperty(
      chunks,
      fc.boolean(),
      fc.boolean(),
      fc.infiniteStream(fc.nat(40)),
      async (all, isSigned, trailing, cuts) => {
        const trailer = trailing ? 'x-amz-checksum-crc32:AAAAAA==' : undefined;
        const bytes = code(all, trailer, isSigned);
        const pieces: Buffer[] = [];
        for (let at = 0; at < bytes.length; ) {
          const length = 1 + (cuts.next().value ?? 0);
          pieces.push(bytes.subarray(at, at + length));
          at += length;
        }
        const { body, found } = await decode(pieces, isSigned, trailing ? ['x-amz-checksum-crc32'] : []);
        expect(body.equals(Buffer.concat(all))).toBe(true);
        expect(found.get('x-amz-checksum-crc32')).toBe(trailing ? 'AAAAAA==' : undefined);
      },
    ),
    { numRuns: 200 },
  );
});

test('a signed body with any byte changed, removed or inserted is refused', async () => {
  const bytes = code([randomBytes(40), randomBytes(10)], 'x-amz-checksum-crc32:AAAAAA==', true);
  const refused = async (changed: Buffer) => {
    // Hex digits of a size may be written in either case.
    if (changed.toString('latin1').toLowerCase() === bytes.toString('latin1').toLowerCase()) return;
    await expect(decode([changed], true, ['x-amz-checksum-crc32'])).rejects.toBeInstanceOf(ServiceError);
  };
  for (let i = 0; i < bytes.length; i += 1) {
    const changed = Buffer.from(bytes);
    changed[i] = (changed[i] ?? 0) ^ 0x01;
    await refused(changed);
    await refused(Buffer.concat([bytes.subarray(0, i), bytes.subarray(i + 1)]));
    await refused(bytes.subarray(0, i));
    await refused(Buffer.concat([bytes.subarray(0, i), Buffer.from('a'), bytes.subarray(i)]));
  }
});

describe('an invalid encoding', () => {
  test.each([
    ['', 'nothing'],
    ['5\r\nhello', 'no end'],
    ['5\r\nhello\r\n', 'no last chunk'],
    ['5\r\nhello\r\n0\r\n', 'no empty line'],
    ['5\nhello\n0\n\n', 'bare line feeds'],
    ['+5\r\nhello\r\n0\r\n\r\n', 'a sign'],
    ['0x5\r\nhello\r\n0\r\n\r\n', 'a prefix'],
    ['5;a=b\r\nhello\r\n0\r\n\r\n', 'an extension'],
    ['fffffffffff\r\nhello\r\n0\r\n\r\n', 'too large a size'],
    ['4\r\nhello\r\n0\r\n\r\n', 'too small a size'],
    ['5\r\nhello\r\n0\r\n\r\nmore', 'more after it'],
    ['5\r\nhello\r\n0\r\nx-amz-meta-a:b\r\n\r\n', 'a trailer that nobody announced'],
    [`${'1'.repeat(2_000)}\r\n`, 'an endless line'],
  ])('%j: %s', async (text) => {
    await expect(decode([Buffer.from(text)], false)).rejects.toBeInstanceOf(ServiceError);
  });

  test('an announced trailer is required', async () => {
    const text = Buffer.from('5\r\nhello\r\n0\r\n\r\n');
    await expect(decode([text], false, ['x-amz-checksum-crc32'])).rejects.toBeInstanceOf(ServiceError);
  });
});

test('the last piece of an invalid body is never passed on', async () => {
  for (const finish of [true, false]) {
    const body = new VerifiedBody(6, [
      {
        update: () => undefined,
        finish: () => {
          if (finish) throw new ServiceError('invalid_request', 'wrong');
        },
      },
    ]);
    const passed: Buffer[] = [];
    body.on('data', (chunk: Buffer) => passed.push(chunk));
    const ended = new Promise((resolve) => body.once('error', resolve).once('end', resolve));
    for (const piece of ['abc', finish ? 'def' : 'de']) body.write(piece);
    body.end();
    expect(await ended).toBeInstanceOf(ServiceError);
    expect(Buffer.concat(passed).toString()).toBe('abc');
  }
});

test('chunks of one byte are joined to few pieces, and limited to the number of usual clients', async () => {
  const stream = new ChunkedBody({ signed: undefined, trailers: new Set(), onTrailers: () => undefined });
  const pieces: Buffer[] = [];
  stream.on('data', (piece: Buffer) => pieces.push(piece));
  const failed = new Promise((resolve) => stream.once('error', resolve));
  stream.write(Buffer.from('1\r\na\r\n'.repeat(1_024)));
  expect(Buffer.concat(pieces).toString()).toBe('a'.repeat(1_024));
  expect(pieces.length).toBeLessThan(3);
  stream.write(Buffer.from('1\r\na\r\n'.repeat(2)));
  expect(await failed).toMatchObject({ answer: { status: 403, code: 'InvalidChunkSizeError' } });
});

test('chunks of a KiB are not limited in number, nor are small ones between large ones', async () => {
  const large = Buffer.alloc(1024 * 1024);
  const few = Array.from({ length: 2_000 }, () => Buffer.from('a'));
  const even = Array.from({ length: 3_000 }, () => Buffer.alloc(1_024));
  for (const all of [[large, ...few], even]) {
    const { body } = await decode([code(all, undefined, false)], false);
    expect(body.equals(Buffer.concat(all))).toBe(true);
  }
});

// The check values of the CRC catalogue, and of FIPS 180.
test.each([
  ['crc32', 'cbf43926'],
  ['crc32c', 'e3069283'],
  ['crc64nvme', 'ae8b14860a799888'],
  ['sha1', 'f7c3bc1d808e04732adf679965ccc34ca7ae3441'],
  ['sha256', '15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225'],
])('%s of 123456789 is %s', (algorithm, hex) => {
  const checksum = createChecksum(algorithm);
  checksum?.update(Buffer.from('12345'));
  checksum?.update(Buffer.from('6789'));
  expect(checksum?.base64()).toBe(Buffer.from(hex, 'hex').toString('base64'));
});

test.each(['xxhash3', 'constructor', '__proto__', ''])('there is no checksum %j', (algorithm) => {
  expect(createChecksum(algorithm)).toBeUndefined();
});
