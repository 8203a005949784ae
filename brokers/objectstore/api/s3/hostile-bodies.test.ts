import { connect } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually } from '../../../../testing/eventually.ts';
import { type Assistant, newAssistant } from '../../testing/assistant.ts';
import { type Fixture, openFixture } from '../../testing/fixture.ts';
import type { S3Keys } from './testing/clients.ts';
import { presign, sendSigned } from './testing/signed.ts';

/** Bodies that no S3 client sends, and that cost the receiver far more than their bytes. */

const MIB = 1024 * 1024;

let fixture: Fixture;
let mine: Assistant;
let keys: S3Keys;
beforeAll(async () => {
  fixture = await openFixture({ pace: { tickMs: 50, windowMs: 12_000, leastBytes: 1_024 } });
  mine = await newAssistant(fixture.broker);
  keys = (await mine.call('GET', '/v1/s3/credentials')).json;
});
afterAll(() => fixture?.close());

const CODED = 'STREAMING-UNSIGNED-PAYLOAD-TRAILER';
const CRC32 = 'x-amz-checksum-crc32';

test('a body in many chunks of one byte is refused as S3 does, and nothing is stored', async () => {
  const bytes = 100_000;
  const { status, code } = await sendSigned(fixture.broker.dataUrl, keys, {
    method: 'PUT',
    path: '/data/tiny',
    headers: {
      'x-amz-content-sha256': CODED,
      'x-amz-trailer': CRC32,
      'x-amz-decoded-content-length': String(bytes),
    },
    body: '1\r\na\r\n'.repeat(bytes),
  });
  expect([status, code]).toEqual([403, 'InvalidChunkSizeError']);
  expect((await mine.get('tiny')).status).toBe(404);
});

test.each([
  ['in headers', { [CRC32]: 'AAAAAA==', 'x-amz-checksum-sha256': 'A' }],
  ['in a header and behind it', { [CRC32]: 'AAAAAA==', 'x-amz-trailer': 'x-amz-checksum-sha1' }],
  ['behind it', { 'x-amz-trailer': 'x-amz-checksum-sha1,x-amz-checksum-crc64nvme' }],
])(
  'a body with two checksums %s is refused before it is read',
  async (_, checksums: Record<string, string>) => {
    const isCoded = 'x-amz-trailer' in checksums;
    const { status, code, message } = await sendSigned(fixture.broker.dataUrl, keys, {
      method: 'PUT',
      path: '/data/sums',
      headers: {
        ...(isCoded ? { 'x-amz-content-sha256': CODED, 'x-amz-decoded-content-length': '0' } : {}),
        ...checksums,
      },
    });
    expect([status, code]).toEqual([400, 'InvalidRequest']);
    expect(message).toBe('A body has one checksum at most, in a header or behind it.');
  },
);

test('a reader that stalls is disconnected, although it has not sent all of its own body', async () => {
  expect((await mine.put('wide', Buffer.alloc(64 * MIB))).status).toBe(200);
  const { hostname, port, pathname, search, host } = new URL(
    presign(fixture.broker.dataUrl, keys, { method: 'GET', path: '/data/wide' }),
  );
  const socket = connect(Number(port), hostname).on('error', () => undefined);
  // Nine of ten bytes are never read.
  socket.write(`GET ${pathname}${search} HTTP/1.1\r\nhost: ${host}\r\ncontent-length: 10\r\n\r\n123456789`);
  socket.once('data', () => socket.pause());
  const cut = () =>
    fixture.broker.log.some((line) => line.includes('s3.GetObject') && line.includes('cut_short'));
  await eventually(cut, { what: 'the reader to be let go' });
  socket.destroy();
});
