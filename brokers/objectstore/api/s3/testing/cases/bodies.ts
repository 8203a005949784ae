import { createHash } from 'node:crypto';
import { bytes, type Case, get, gives, head, holds, MIB, put, refused, remove, step } from './case.ts';

const md5 = (content: Buffer) => createHash('md5').update(content).digest();

/** Checksums of `123456789`, by the catalogues of checksums. */
const RIGHT = {
  ChecksumCRC32: Buffer.from('cbf43926', 'hex').toString('base64'),
  ChecksumCRC32C: Buffer.from('e3069283', 'hex').toString('base64'),
  ChecksumCRC64NVME: Buffer.from('ae8b14860a799888', 'hex').toString('base64'),
  ChecksumSHA1: createHash('sha1').update('123456789').digest('base64'),
  ChecksumSHA256: createHash('sha256').update('123456789').digest('base64'),
};
const ABOUT = {
  ContentType: 'text/csv',
  CacheControl: 'no-cache',
  ContentDisposition: 'attachment; filename="a.csv"',
  ContentLanguage: 'de',
  ContentEncoding: 'gzip',
};

export const BODIES: readonly Case[] = [
  ...[0, 1, 2, 1_023, 1_024, 64 * 1024, 64 * 1024 + 1, MIB - 1, MIB + 1, 6 * MIB].map((size) => ({
    name: `a body of ${size} bytes comes back as it was`,
    steps: [
      put('size', { $bytes: size }, {}, gives({ ETag: `"${md5(bytes(size)).toString('hex')}"` })),
      get('size', {}, gives({ Body: { $bytes: size }, ContentLength: size })),
      head('size', {}, gives({ ContentLength: size, ETag: `"${md5(bytes(size)).toString('hex')}"` })),
    ],
  })),
  ...['CRC32', 'CRC32C', 'CRC64NVME', 'SHA1', 'SHA256'].map((algorithm) => ({
    name: `a body is verified by the SDK's own ${algorithm}`,
    steps: [
      put('sum', { $bytes: 70_000 }, { ChecksumAlgorithm: algorithm }),
      holds('sum', { $bytes: 70_000 }),
      put('sum', '', { ChecksumAlgorithm: algorithm }),
      holds('sum', ''),
    ],
  })),
  ...Object.entries(RIGHT).map(([name, value]) => ({
    name: `a ${name} that is right is taken and told back`,
    steps: [put('right', '123456789', { [name]: value }, gives({ [name]: value }))],
  })),
  {
    name: 'a ContentMD5 that is right is taken',
    steps: [
      put('right', '123456789', { ContentMD5: md5(Buffer.from('123456789')).toString('base64') }),
      holds('right', '123456789'),
    ],
  },
  ...[...Object.keys(RIGHT), 'ContentMD5'].map((name) => ({
    name: `a body with a wrong ${name} is not stored`,
    steps: [
      put('kept', 'right'),
      put('kept', 'wrong', { [name]: wrong(name) }, refused('400 BadDigest')),
      holds('kept', 'right'),
    ],
  })),
  {
    name: 'a body with a ContentMD5 that is none is not stored',
    steps: [put('none', 'x', { ContentMD5: 'AAAA' }, refused('400')), head('none', {}, refused('404'))],
  },
  {
    name: 'what stands in headers is kept with an object',
    steps: [put('about', 'x', ABOUT), head('about', {}, gives(ABOUT)), get('about', {}, gives(ABOUT))],
  },
  {
    name: 'an object without headers has a type, and no metadata',
    steps: [
      put('bare', 'x'),
      head('bare', {}, gives({ Metadata: {}, CacheControl: null, ContentEncoding: null })),
    ],
  },
  {
    name: 'metadata is kept with an object, and goes with the next',
    steps: [
      put('meta', 'x', { Metadata: { colour: 'blue', 'with-dash': 'x y', digits123: '0', empty: '' } }),
      head('meta', {}, gives({ Metadata: { colour: 'blue', 'with-dash': 'x y', digits123: '0' } })),
      put('meta', 'x', { Metadata: { other: 'one' } }),
      head('meta', {}, gives({ Metadata: { colour: null, other: 'one' } })),
    ],
  },
  {
    name: 'metadata has names as programs have them',
    steps: [
      put('meta', 'x', { Metadata: { source_file: 'a', 'v1.2': 'b', _id: 'c' } }),
      head('meta', {}, gives({ Metadata: { source_file: 'a', 'v1.2': 'b', _id: 'c' } })),
      put('meta', 'x', { Metadata: { 'a~b': 'c' } }, refused('400 InvalidArgument')),
    ],
  },
  {
    name: 'metadata of 2 KiB is kept, and more is refused',
    steps: [
      put('meta', 'x', { Metadata: { a: 'v'.repeat(1_000), b: 'v'.repeat(1_000) } }),
      head('meta', {}, gives({ Metadata: { a: 'v'.repeat(1_000), b: 'v'.repeat(1_000) } })),
      put('meta', 'x', { Metadata: { a: 'v'.repeat(1_024), b: 'v'.repeat(1_024) } }, refused('400')),
    ],
  },
  {
    name: 'an object is overwritten whole',
    steps: [
      put('over', { $bytes: 10_000 }, { ContentType: 'text/css' }),
      put('over', 'short'),
      get('over', {}, gives({ Body: 'short', ContentLength: 5 })),
    ],
  },
  {
    name: 'an object is gone when it is deleted, and may be deleted again',
    steps: [
      put('gone', 'x'),
      remove('gone'),
      get('gone', {}, refused('404 NoSuchKey')),
      head('gone', {}, refused('404')),
      remove('gone'),
      put('gone', 'again'),
      holds('gone', 'again'),
    ],
  },
  {
    name: 'private and STANDARD are what an object is anyway',
    steps: [put('usual', 'x', { ACL: 'private', StorageClass: 'STANDARD' }), holds('usual', 'x')],
  },
  {
    name: 'many are deleted at once, and each is answered',
    steps: [
      put('many/1', 'x'),
      put('many/2', 'x'),
      step(
        'DeleteObjects',
        {
          Delete: {
            Objects: ['{home}/many/1', '{home}/many/never', '{home}/many//bad'].map((Key) => ({ Key })),
          },
        },
        gives({
          Deleted: [{ Key: '{home}/many/1' }, { Key: '{home}/many/never' }],
          Errors: [{ Key: '{home}/many//bad', Code: 'InvalidArgument' }],
        }),
      ),
      head('many/1', {}, refused('404')),
      holds('many/2', 'x'),
      ...[{ VersionId: '1' }, { ETag: '"x"' }, { Size: 1 }].map((more) =>
        step(
          'DeleteObjects',
          { Delete: { Objects: [{ Key: '{home}/many/2', ...more }] } },
          gives({ Deleted: null, Errors: [{ Key: '{home}/many/2', Code: 'NotImplemented' }] }),
        ),
      ),
      holds('many/2', 'x'),
      step(
        'DeleteObjects',
        { Delete: { Objects: [{ Key: '{home}/many/2' }], Quiet: true } },
        gives({ Deleted: null, Errors: null }),
      ),
      head('many/2', {}, refused('404')),
    ],
  },
];

/** A text of the right length, and not the checksum of anything in the table. */
function wrong(name: string): string {
  const size = { ChecksumCRC64NVME: 8, ChecksumSHA1: 20, ChecksumSHA256: 32, ContentMD5: 16 }[name] ?? 4;
  return Buffer.alloc(size).toString('base64');
}
