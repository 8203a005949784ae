import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readlinkSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type Server } from 'node:net';
import { Readable, Writable } from 'node:stream';
import { portOf } from '@space/broker-kit';
import type { Pool } from 'undici';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { type S3Server, startS3Server } from '../../../testing/s3.ts';
import { targetAt } from '../testing/target.ts';
import { createS3Client } from './client.ts';
import { S3Error, toServiceError } from './errors.ts';
import { createPool } from './managed.ts';
import type { Target } from './target.ts';
import type { S3Client } from './types.ts';

let server: S3Server;
let target: Target;
let pool: Pool;
let client: S3Client;

beforeAll(async () => {
  server = await startS3Server();
  server.makeBucket('space');
  target = targetAt(server, 'space');
  pool = createPool(target, { connections: 16 });
  client = createS3Client(target, pool);
});

afterAll(async () => {
  await pool?.destroy();
  await server?.remove();
});

/** Everything that was written to it. */
class Sink extends Writable {
  readonly chunks: Buffer[] = [];
  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.chunks.push(chunk);
    done();
  }
  text(): string {
    return Buffer.concat(this.chunks).toString();
  }
}

async function content(key: string, headers = {}): Promise<string> {
  const sink = new Sink();
  await client.get(key, { headers }, () => sink);
  return sink.text();
}

const failure = (act: Promise<unknown>) =>
  act.then(
    () => undefined,
    (error: unknown) => (error instanceof S3Error ? `${error.kind} ${error.status} ${error.code}` : error),
  );

const stream = (text: string, length = Buffer.byteLength(text)) => ({
  stream: Readable.from([Buffer.from(text)]),
  length,
});

test.each([
  'plain',
  'a/b/c',
  'with space',
  'ä/ö',
  '日本',
  'q\'uo"te',
  '<&>',
  '+',
  '100%',
  '?#',
  '(a)*!',
  'a:b@c=d,e;f$',
])('an object named %j is stored, read, listed, copied and deleted', async (name) => {
  const key = `names/${name}`;
  const { etag } = await client.put(key, stream('hello'), { headers: { 'x-amz-meta-colour': 'blue' } });
  expect(await content(key)).toBe('hello');
  const head = await client.head(key);
  expect(head.headers).toMatchObject({ etag, 'content-length': '5', 'x-amz-meta-colour': 'blue' });
  const listed = await client.list({ prefix: key, limit: 10 });
  expect(listed.objects).toMatchObject([{ key, size: 5, etag }]);
  expect((await client.copy(key, `${key}-copy`)).etag).toBe(etag);
  expect(await content(`${key}-copy`)).toBe('hello');
  expect(await client.deleteMany([key, `${key}-copy`])).toEqual([]);
  expect(await failure(client.head(key))).toMatch(/answered 404/);
});

describe('conditions and ranges', () => {
  test('a write may require that the object does not exist, or that it exists', async () => {
    const first = await client.put('cond/a', stream('one'), { headers: { 'if-none-match': '*' } });
    expect(await failure(client.put('cond/a', stream('two'), { headers: { 'if-none-match': '*' } }))).toBe(
      'answered 412 PreconditionFailed',
    );
    expect(await failure(client.put('cond/a', stream('two'), { headers: { 'if-match': '"other"' } }))).toBe(
      'answered 412 PreconditionFailed',
    );
    await client.put('cond/a', stream('two'), { headers: { 'if-match': first.etag } });
    expect(await content('cond/a')).toBe('two');
  });

  test('a read may be of a part, or of what changed', async () => {
    const { etag } = await client.put('cond/b', stream('0123456789'));
    expect(await content('cond/b', { range: 'bytes=2-4' })).toBe('234');
    expect(await content('cond/b', { range: 'bytes=-3' })).toBe('789');
    expect(await failure(client.get('cond/b', { headers: { range: 'bytes=20-' } }, () => new Sink()))).toBe(
      'answered 416 InvalidRange',
    );
    const head = await client.get('cond/b', { headers: { 'if-none-match': etag } }, () => new Sink());
    expect(head.status).toBe(304);
    expect(await failure(client.get('cond/b', { headers: { 'if-match': '"x"' } }, () => new Sink()))).toMatch(
      /412/,
    );
  });
});

test('an upload in parts becomes one object', async () => {
  const upload = await client.createUpload('parts/a', { headers: { 'content-type': 'text/plain' } });
  const first = randomBytes(5 * 1024 * 1024);
  const parts = [
    await client.putPart('parts/a', upload, 1, first),
    await client.putPart('parts/a', upload, 2, Buffer.from('end')),
  ];
  const listed = await client.listParts('parts/a', upload, { after: 0, limit: 1 });
  expect(listed).toMatchObject({ parts: [{ number: 1, size: first.length, etag: parts[0]?.etag }], next: 1 });
  await client.completeUpload(
    'parts/a',
    upload,
    parts.map(({ etag }, i) => ({ number: i + 1, etag })),
  );
  expect((await client.head('parts/a')).headers).toMatchObject({
    'content-length': String(first.length + 3),
    'content-type': 'text/plain',
  });
  expect(await failure(client.abortUpload('parts/a', upload))).toBe('answered 404 NoSuchUpload');
});

test('pages follow one another', async () => {
  for (const name of ['a', 'b/1', 'b/2', 'c', 'd']) await client.put(`pages/${name}`, stream('x'));
  const seen: string[] = [];
  let token: string | undefined;
  do {
    const page = await client.list({ prefix: 'pages/', delimiter: '/', token, limit: 1 });
    seen.push(...page.objects.map(({ key }) => key), ...page.prefixes);
    token = page.next;
  } while (token !== undefined);
  expect(seen).toEqual(['pages/a', 'pages/b/', 'pages/c', 'pages/d']);
});

describe('an incomplete body', () => {
  /** Objects that the server has begun to write and not yet named. */
  const unfinished = () =>
    readdirSync(`/proc/${server.pid}/fd`).filter((fd) => {
      try {
        const path = readlinkSync(`/proc/${server.pid}/fd/${fd}`);
        return path.startsWith(server.directory) && /\(deleted\)$|\.sgwtmp/.test(path);
      } catch {
        return false;
      }
    }).length;

  test.each([
    ['is aborted', (_body: Readable, abort: AbortController) => abort.abort()],
    ['breaks', (body: Readable) => body.destroy(new Error('broken'))],
    ['ends early', (body: Readable) => void body.push(null)],
    ['goes on too long', (body: Readable) => void body.push(Buffer.alloc(16 * 1024 * 1024))],
  ])('because it %s leaves the old object', async (_what, end) => {
    await client.put('whole', stream('good'));
    const body = new Readable({ read: () => undefined });
    const abort = new AbortController();
    const put = failure(
      client.put('whole', { stream: body, length: 4 * 1024 * 1024 }, { signal: abort.signal }),
    );
    body.push(Buffer.alloc(2 * 1024 * 1024));
    await eventually(() => unfinished() > 0, { what: 'the server to begin' });
    end(body, abort);
    expect(await put).toBeDefined();
    await eventually(() => unfinished() === 0, { what: 'the server to end' });
    expect(await content('whole')).toBe('good');
  });

  test('is not waited for if it was interrupted before its turn came', async () => {
    const gone = stream('abc', 3);
    gone.stream.destroy();
    await once(gone.stream, 'close');
    expect(await failure(client.put('gone', gone))).toBeDefined();
    expect(await failure(client.head('gone'))).toMatch(/404/);
  });

  test('shorter than a chunk is not stored either', async () => {
    expect(await failure(client.put('short', stream('abc', 10)))).toBeDefined();
    expect(await failure(client.put('long', stream('abc', 2)))).toBeDefined();
    for (const key of ['short', 'long']) expect(await failure(client.head(key))).toMatch(/404/);
  });
});

test.each([1, 8_191, 1024 * 1024 - 1, 1024 * 1024, 1024 * 1024 + 1, 3 * 1024 * 1024])(
  'a body of %d bytes is unchanged, however it is split',
  async (length) => {
    const bytes = randomBytes(length);
    const pieces = [
      bytes.subarray(0, length >> 2),
      bytes.subarray(length >> 2, length >> 1),
      bytes.subarray(length >> 1),
    ];
    await client.put('cut', { stream: Readable.from(pieces.filter((one) => one.length > 0)), length });
    const { body, headers } = await client.read('cut', length);
    expect(body.equals(bytes)).toBe(true);
    expect(headers['content-encoding']).toBeUndefined();
  },
);

describe('an upstream that fails', () => {
  const servers: Server[] = [];
  afterAll(() => {
    for (const one of servers) one.close();
  });

  /** Answers every connection with these bytes, and with the rest a moment later. */
  async function fake(bytes: string, rest = ''): Promise<S3Client> {
    const broken = createServer({ noDelay: true }, (socket) => {
      socket.on('error', () => undefined);
      socket.once('data', () => {
        socket.write(bytes);
        if (rest === '') socket.end();
        else setTimeout(() => socket.end(rest), 100);
      });
    });
    servers.push(broken);
    await new Promise<void>((resolve) => broken.listen(0, '127.0.0.1', resolve));
    const at = { ...target, origin: `http://127.0.0.1:${portOf(broken)}` };
    return createS3Client(at, createPool(at, { connections: 1 }));
  }

  const reply = (status: string, body: string) =>
    `HTTP/1.1 ${status}\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`;

  test.each([
    ['500 Internal', '<Error><Code>InternalError</Code><Message>secret</Message></Error>', 'upstream_failed'],
    ['403 Forbidden', '<Error><Code>AccessDenied</Code></Error>', 'upstream_failed'],
    ['404 Not Found', '<Error><Code>NoSuchBucket</Code></Error>', 'upstream_failed'],
    ['404 Not Found', '<Error><Code>NoSuchKey</Code></Error>', 'not_found'],
    ['503 Slow', '<Error><Code>SlowDown</Code></Error>', 'unavailable'],
    ['503 Lost', '<Error><Code>SlowDownWrite</Code></Error>', 'unavailable'],
    ['429 Many', '<Error><Code>TooManyRequests</Code></Error>', 'unavailable'],
    ['301 Moved', '', 'upstream_failed'],
    ['400 Bad', '<!DOCTYPE x [<!ENTITY e "x">]><Error><Code>&e;</Code></Error>', 'upstream_failed'],
    ['400 Bad', 'not xml', 'upstream_failed'],
    ['418 Odd', '<Error><Code>"><script></Code></Error>', 'upstream_failed'],
  ])('%s %s is %s', async (status, body, code) => {
    const one = await fake(reply(status, body));
    const error = await one.head('key').catch((thrown: unknown) => thrown);
    const read = await one.read('key', 100).catch((thrown: unknown) => thrown);
    expect(toServiceError(read).code).toBe(code);
    expect(String(error) + String(read)).not.toMatch(/secret|script/);
  });

  test('garbage, silence and a refused connection are failures of the upstream', async () => {
    for (const bytes of ['', 'garbage\r\n\r\n', 'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort']) {
      const one = await fake(bytes);
      const error = await one.read('key', 1_000).catch((thrown: unknown) => thrown);
      expect(toServiceError(error).code).toBe('upstream_failed');
    }
    const nobody = { ...target, origin: 'http://127.0.0.1:1' };
    const refused = createS3Client(nobody, createPool(nobody, { connections: 1 }));
    expect(await failure(refused.head('key'))).toBe('unreachable 0 ECONNREFUSED');
  });

  test('a long refusal of a download is read whole', async () => {
    const padding = 'x'.repeat(12_000);
    const body = `<Error><Message>${padding}</Message><Code>NoSuchKey</Code></Error>`;
    const one = await fake(reply('404 Not Found', body).slice(0, -body.length), body);
    expect(await failure(one.get('key', {}, () => new Sink()))).toBe('answered 404 NoSuchKey');
  });

  test('an error inside of a 200 is an error', async () => {
    const one = await fake(
      reply('200 OK', '<?xml version="1.0"?>\n<Error><Code>InternalError</Code></Error>'),
    );
    expect(await failure(one.copy('a', 'b'))).toBe('answered 500 InternalError');
  });

  test.each([
    [
      'a page that goes on, and says not where',
      '<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>',
      'NoNextToken',
    ],
    [
      'more items than were asked for',
      `<ListBucketResult>${'<Contents/>'.repeat(4)}</ListBucketResult>`,
      'MalformedAnswer',
    ],
    [
      'more bytes than so many items can have',
      `<ListBucketResult>${' '.repeat(100_000)}</ListBucketResult>`,
      'AnswerTooLarge',
    ],
    ['a list of something else', '<Other/>', 'MalformedAnswer'],
    ['half a list', '<ListBucketResult><Contents>', 'MalformedAnswer'],
    [
      'an error in its place, after white space',
      `<?xml version="1.0"?>${' '.repeat(2_000)}<Error><Code>SlowDown</Code></Error>`,
      'SlowDown',
    ],
  ])('%s is no list', async (_, body, code) => {
    const one = await fake(reply('200 OK', body));
    expect(await failure(one.list({ prefix: '', limit: 3 }))).toMatch(new RegExp(` ${code}$`));
  });

  test('a page that is too long is requested again in halves, a few times', async () => {
    const asked: string[] = [];
    const pages = createHttpServer((request, response) => {
      const most = new URL(request.url ?? '', 'http://a').searchParams.get('max-keys') ?? '';
      asked.push(most);
      const one = `<Contents><Key>${'a'.repeat(3_500)}</Key></Contents>`;
      response.end(`<ListBucketResult>${one.repeat(Number(most))}</ListBucketResult>`);
    }).listen(0, '127.0.0.1');
    await once(pages, 'listening');
    const there = { ...target, origin: `http://127.0.0.1:${portOf(pages)}` };
    const own = createPool(there, { connections: 1 });
    const page = await createS3Client(there, own).list({ prefix: '', limit: 1_000 });
    expect([asked, page.objects.length]).toEqual([['1000', '500'], 500]);
    await own.destroy();
    pages.close();
  });

  test('an object without a length, or a whole one instead of a range, is refused', async () => {
    const endless = await fake('HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhalf of it');
    expect(await failure(endless.get('key', {}, () => new Sink()))).toBe('answered 200 NoLength');
    const whole = await fake(reply('200 OK', 'all of it'));
    const range = { headers: { range: 'bytes=0-1' } };
    expect(await failure(whole.get('key', range, () => new Sink()))).toBe('answered 200 RangeIgnored');
  });

  test('a write without an entity tag in the answer counts as failed', async () => {
    const one = await fake(reply('200 OK', ''));
    expect(await failure(one.put('key', Buffer.from('x')))).toBe('answered 200 NoETag');
  });

  test('an endless answer is ended', async () => {
    const one = await fake(reply('200 OK', 'x'.repeat(10_000)));
    expect(await failure(one.read('key', 1_000))).toBe('answered 0 AnswerTooLarge');
  });
});

describe('a server that never answers', () => {
  /** So long a copy or a completion may take here; the limit of other requests is 30 s. */
  const SOON = 300;
  let silent: Server;
  let silentPool: Pool;
  let patient: S3Client;

  beforeAll(async () => {
    silent = createServer((socket) => void socket.on('error', () => undefined).resume());
    await once(silent.listen(0, '127.0.0.1'), 'listening');
    const there = { ...target, origin: `http://127.0.0.1:${portOf(silent)}` };
    silentPool = createPool(there, { connections: 4 });
    patient = createS3Client(there, silentPool, undefined, SOON);
  });
  afterAll(async () => {
    await silentPool?.destroy();
    silent?.close();
  });

  test.each<readonly [string, () => Promise<unknown>]>([
    ['a copy', () => patient.copy('from', 'to')],
    ['a copy of a part', () => patient.copyPart('from', { key: 'to', upload: 'id', number: 1 })],
    ['a completion', () => patient.completeUpload('to', 'id', [{ number: 1, etag: '"e"' }])],
  ])('%s is waited for as long as copies may take', async (_, act) => {
    expect(await failure(act())).toMatch(/^timeout/);
  });

  test('a time limit of the caller is reported as such, with an error of this client', async () => {
    const limited = { signal: AbortSignal.timeout(50) };
    expect(await failure(patient.head('key', limited))).toBe('timeout 0 TimeoutError');
    expect(await failure(patient.put('key', Buffer.from('x'), limited))).toBe('timeout 0 TimeoutError');
  });

  test('other requests have a limit of their own', async () => {
    const ended = new AbortController();
    let over = false;
    const asked = failure(patient.head('key', { signal: ended.signal })).then(() => {
      over = true;
    });
    // A copy that is begun after it ends before it.
    await failure(patient.copy('from', 'to'));
    expect(over).toBe(false);
    ended.abort();
    await asked;
  });
});
