import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Assistant, assistant, newAssistant } from '../testing/assistant.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';
import { rawRequest } from '../testing/raw.ts';

/**
 * Requests that no client would send, byte by byte. Whatever they say: what is stored is stored under the name that
 * was said, in the caller's own place, and what is refused stores nothing and says nothing but its code.
 */

const RUNS = 300;
const FIXED = /^\{"error":\{"code":"[a-z_]+"\},"trace_id":"[0-9a-f]{32}"\}$/;

let fixture: Fixture;
let base: string;
let mine: Assistant;
let foreign: { readonly place: string; readonly cursor: string };

beforeAll(async () => {
  fixture = await openFixture({ environment: { OBJECT_REQUESTS_PER_SECOND: '1000000' } });
  base = fixture.broker.dataUrl;
  const other = await newAssistant(fixture.broker);
  for (const key of ['a', 'b', 'secret']) await other.put(key, 'theirs');
  const { json } = await other.call('GET', '/v1/objects/data?limit=1');
  const [row] = await fixture.registry<{ place: string }>('SELECT place FROM broker.workload');
  foreign = { place: row?.place ?? '', cursor: json.cursor };
  const capsule = await fixture.broker.capsule('raw');
  mine = assistant(base, await fixture.broker.workload(capsule, 'raw', 'app'));
});
afterAll(() => fixture?.close());

/** Paths and contents of all files in the bucket but those of the other Assistant. */
function stored(): readonly (readonly [path: string, content: string])[] {
  const root = join(fixture.s3.directory, 'space');
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.parentPath.includes('/c/'))
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !path.startsWith(join(root, foreign.place)))
    .map((path) => [path.slice(root.length + 1), readFileSync(path, 'latin1')] as const);
}

async function emptied(): Promise<void> {
  const { json } = await mine.call('GET', '/v1/objects/data');
  const keys = json.objects.map(({ key }: { key: string }) => key);
  if (keys.length > 0) await mine.post('/v1/deletions/data', { keys });
  expect(stored()).toEqual([]);
}

/** A path as bytes, unescaped once, by no code of ours. */
const unescaped = (raw: string) =>
  Buffer.from(
    raw.replace(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16))),
    'latin1',
  ).toString('utf8');

const piece = fc.oneof(
  fc.constantFrom(
    ...['a', 'b', '..', '.', '', '/', '//', '\\', '%2e', '%2E%2e', '%2f', '%2F', '%5c', '%00', '%0a', '%7f'],
    ...['%c0%ae', '%c0%af', '%e0%80%af', '%f0%80%80%af', '%ff', '%ed%a0%80', '%ef%bf%bf', '%c3%a4', '%252e'],
    ...[
      '%',
      '%2',
      '%zz',
      '%u002e',
      '\u00e4',
      '\t',
      '"',
      '<',
      '{',
      '|',
      '^',
      '`',
      '#',
      ';',
      '+',
      '*',
      '~',
      '%20',
    ],
    ...['c', 's', 'x'.repeat(255), 'x'.repeat(256), '%c3%a4'.repeat(451)],
  ),
  fc.string({ maxLength: 4 }).map((text) => encodeURIComponent(text.toWellFormed())),
);
const path = fc.array(piece, { minLength: 1, maxLength: 5 }).map((pieces) => pieces.join(''));
const aimed = fc
  .tuple(fc.constantFrom('../', '%2e%2e/', '..%2f', '../../../', '/', ''), path)
  .map(([climb, rest]) => `${climb}${foreign.place}${rest}`);

test('a PUT to any path stores its body at its path, or nothing', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.oneof({ arbitrary: path, weight: 5 }, { arbitrary: aimed, weight: 1 }),
      async (raw) => {
        const line = `PUT /v1/objects/data/${raw}`;
        const { status, text } = await rawRequest(base, mine.token, line, ['content-length: 1'], 'x');
        if (status === 200) {
          const [file, ...others] = stored();
          expect(others).toEqual([]);
          expect(file).toEqual([expect.stringMatching(/^c\/[0-9a-f]{40}\/a\/[0-9a-f]{40}\//), 'x']);
          expect(file?.[0].split('/').slice(4).join('/')).toBe(unescaped(raw));
          await emptied();
        } else {
          expect([400, 404, 409]).toContain(status);
          // The parser refuses what is not a request, without an answer.
          if (text !== '') expect(text).toMatch(FIXED);
          expect(stored()).toEqual([]);
        }
        for (const method of ['GET', 'HEAD', 'DELETE']) {
          const answer = await rawRequest(base, mine.token, `${method} /v1/objects/data/${raw}`);
          expect([200, 400, 404]).toContain(answer.status);
          if (answer.status !== 200 && answer.text !== '') expect(answer.text).toMatch(FIXED);
          expect(answer.text).not.toContain('theirs');
        }
      },
    ),
    { numRuns: RUNS },
  );
});

const header = fc.constantFrom(
  ...[
    'content-length: 1',
    'content-length: 2',
    'content-length: 0',
    'content-length: 01',
    'content-length: -1',
  ],
  ...[
    'content-length: 1, 1',
    'content-length:',
    'content-length: 1e0',
    'content-length: 99999999999999999999',
  ],
  ...['Content-Length: 1', 'content-length : 1', ' content-length: 1', 'content-length: 5368709121'],
  ...['transfer-encoding: chunked', 'transfer-encoding: identity', 'transfer-encoding: gzip, chunked'],
  ...[
    'x-amz-acl: private',
    'X-Amz-Copy-Source: /space/c/secret',
    'x-amz-meta-a: b',
    'x-amz-date: 20260101T000000Z',
  ],
  ...[
    'x-amz-security-token: space',
    'x-amz-content-sha256: UNSIGNED-PAYLOAD',
    'content-encoding: aws-chunked',
  ],
  ...[
    'if-none-match: *',
    'if-match: *',
    'if-match: "a"',
    'if-match: \u0084',
    'content-md5: AAAA',
    'range: bytes=0-0',
  ],
  ...[
    'x-object-meta-a: b',
    'x-object-meta-a: \u00e4',
    'x-object-meta-A_: b',
    'x-object-meta-: b',
    'host: other',
  ],
  ...[
    'expect: 100-continue',
    'expect: nothing',
    'platform-grant: x.y.z',
    'trailer: x',
    'upgrade: h2c',
    'a b: c',
  ],
  ...[
    'connection: keep-alive, authorization',
    'authorization: Bearer other',
    'content-type: a/b',
    'content-type:',
  ],
);

test('a PUT with any headers stores as many bytes as announced, or nothing', async () => {
  // By key. Who ends the connection early may be answered nothing or an error and have stored a whole body.
  const sent = new Map<string, { readonly headers: readonly string[]; readonly body: string }>();
  const expectWhole = ([path, content]: readonly [path: string, content: string]) => {
    const { headers = [], body = '' } = sent.get(path.split('/').slice(4).join('/')) ?? {};
    expect(headers.filter((one) => /^x-amz-/i.test(one))).toEqual([]);
    const lengths = headers.flatMap((one) => /^content-length:\s*(\d+)$/i.exec(one)?.[1] ?? []);
    expect(lengths).toHaveLength(1);
    expect(content).toBe(body.slice(0, Number(lengths[0])));
    expect(content).toHaveLength(Number(lengths[0]));
  };
  await fc.assert(
    fc.asyncProperty(
      fc.array(header, { minLength: 1, maxLength: 4 }),
      fc.constantFrom('', 'x', 'xy', '1\r\nx\r\n0\r\n\r\n', '0\r\n\r\n'),
      async (headers, body) => {
        const key = `raw-${sent.size}`;
        sent.set(key, { headers, body });
        const line = `PUT /v1/objects/data/${key}`;
        const { status, text } = await rawRequest(base, mine.token, line, headers, body, { end: true });
        if (status === 200) {
          expect(stored().filter(([path]) => path.endsWith(`/${key}`))).toHaveLength(1);
        } else if (status !== 100) {
          expect(status === 0 || (status >= 400 && status < 500)).toBe(true);
          if (text !== '') expect(text).toMatch(FIXED);
        }
        for (const file of stored()) expectWhole(file);
      },
    ),
    { numRuns: RUNS },
  );
});

const value = fc.oneof(
  path,
  fc.constantFrom(
    '',
    '/',
    '0',
    '1',
    '1000',
    '1001',
    '-1',
    '01',
    '1e1',
    'a&prefix=b',
    'a%26delete',
    '%00',
    '+',
    'a+b',
  ),
  fc.constant('').map(() => foreign.cursor),
  fc.constant('').map(() => foreign.place),
);
const pair = fc
  .tuple(
    fc.constantFrom(
      'prefix',
      'delimiter',
      'cursor',
      'limit',
      'after',
      'delete',
      'uploads',
      'acl',
      'Prefix',
      '%70refix',
    ),
    fc.option(value),
  )
  .map(([name, text]) => (text === null ? name : `${name}=${text}`));

test('a list with any query shows objects of nobody else', async () => {
  const lister = await newAssistant(fixture.broker);
  await lister.put('own', 'x');
  await fc.assert(
    fc.asyncProperty(fc.array(pair, { maxLength: 3 }), async (pairs) => {
      const line = `GET /v1/objects/data?${pairs.join('&')}`;
      const { status, text } = await rawRequest(base, lister.token, line);
      if (status !== 200) {
        expect(status).toBe(400);
        if (text !== '') expect(text).toMatch(FIXED);
        return;
      }
      expect(new Set(pairs.map((one) => one.split('=')[0])).size).toBe(pairs.length);
      const { objects, prefixes, cursor } = JSON.parse(text);
      expect([[], ['own']]).toContainEqual(objects.map(({ key }: { key: string }) => key));
      expect([prefixes, cursor]).toEqual([[], undefined]);
    }),
    { numRuns: RUNS },
  );
});
