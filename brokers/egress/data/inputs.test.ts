import { createHash, createHmac } from 'node:crypto';
import { type RequestListener, request } from 'node:http';
import { gzipSync } from 'node:zlib';
import type { Definition } from '@space/manifests';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { makePki, type TestPki } from '../../../testing/certificates.ts';
import { basic, digest, makeGateway, type TestGateway, VALUE } from '../testing/gateway.ts';
import { startUpstream, type TestUpstream } from '../testing/upstream.ts';
import type { DataLimits } from './limits.ts';

const HOST = 'api.bank.org';
const ROUTES: Definition['routes'] = [
  { method: 'GET', path: '/v1/rates' },
  { method: 'GET', path: '/v1/accounts/*/postings', query: [{ name: 'status', values: ['booked'] }] },
  { method: 'POST', path: '/v1/transfers' },
];
const INPUTS: Readonly<Record<string, Definition>> = {
  bearer: { host: HOST, routes: ROUTES, header: 'Authorization', scheme: 'Bearer' },
  key: { host: HOST, routes: ROUTES, header: 'X-Api-Key' },
  basic: { host: HOST, routes: ROUTES, header: 'Authorization', scheme: 'Basic' },
  param: { host: HOST, routes: ROUTES, query: 'api_key' },
  signed: { host: HOST, routes: ROUTES, header: 'X-Signature', scheme: 'v1', hmac: 'sha256-body' },
  request: { host: HOST, routes: ROUTES, header: 'X-Signature', hmac: 'sha256-request-v1' },
  untrusted: { host: 'untrusted.bank.org', routes: ROUTES, header: 'X-Api-Key' },
  misnamed: { host: 'misnamed.bank.org', routes: ROUTES, header: 'X-Api-Key' },
  old: { host: 'old.bank.org', routes: ROUTES, header: 'X-Api-Key' },
};

let pki: TestPki;
let foreign: TestPki;
let upstreams: Record<'good' | 'untrusted' | 'old', TestUpstream>;
let test: TestGateway;

beforeAll(async () => {
  [pki, foreign] = await Promise.all([makePki(), makePki()]);
  upstreams = {
    good: await startUpstream(await pki.issue(HOST)),
    untrusted: await startUpstream(await foreign.issue('untrusted.bank.org')),
    old: await startUpstream({ ...(await pki.issue('old.bank.org')), maxVersion: 'TLSv1.1' }),
  };
});
afterAll(async () => {
  await Promise.all(Object.values(upstreams).map((upstream) => upstream.close()));
  await Promise.all([pki.remove(), foreign.remove()]);
});
beforeEach(async () => {
  await open();
  upstreams.good.seen.length = 0;
  upstreams.good.answer = (_, response) => response.end('ok');
});
afterEach(() => test.close());

async function open(limits: Partial<DataLimits> = {}): Promise<void> {
  const at = (upstream: TestUpstream) => ({
    address: '127.0.0.1',
    port: upstream.port,
    ttl: 60,
    trusted: true as const,
  });
  const fixed = new Map([
    [HOST, at(upstreams.good)],
    ['misnamed.bank.org', at(upstreams.good)],
    ['untrusted.bank.org', at(upstreams.untrusted)],
    ['old.bank.org', at(upstreams.old)],
  ]);
  const all = { bodyBytes: 100_000, signedBodyBytes: 1_000, ...limits };
  test = await makeGateway({ fixed, authorities: pki.authority, limits: all, now: () => 1_800_000_000_000 });
  await test.put({}, INPUTS);
}

const PASSWORD = 'Tr0ub4dor & 3';
const PAIR = `ledger:${PASSWORD}`;

interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
  readonly code: unknown;
}

function call(
  path: string,
  options: {
    method?: string;
    headers?: Record<string, string | string[]> | string[];
    body?: string | Buffer;
    anonymous?: true;
  } = {},
): Promise<Reply> {
  const { method = 'GET', body, anonymous } = options;
  const own = anonymous ? [] : ['authorization', `Bearer ${test.principal}`];
  const given = Array.isArray(options.headers)
    ? options.headers
    : Object.entries(options.headers ?? {}).flatMap(([name, value]) =>
        [value].flat().flatMap((one) => [name, one]),
      );
  const proved = given.some((word) => word.includes('spc_egr_') || word.startsWith('Basic'));
  const headers = ['host', 'assistant-egress', ...(proved ? [] : own), ...given];
  if (body !== undefined && !given.includes('transfer-encoding'))
    headers.push('content-length', String(body.length));
  return new Promise((resolve, reject) => {
    const outgoing = request(
      { host: '127.0.0.1', port: test.port, path, method, headers, agent: false },
      (response) => {
        let text = '';
        response.setEncoding('latin1').on('data', (chunk) => {
          text += chunk;
        });
        response.on('close', () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body: text,
            code: response.headers['platform-egress-error'],
          }),
        );
      },
    );
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}

const seen = () => upstreams.good.seen.at(-1);
const header = (name: string) => {
  const raw = seen()?.rawHeaders ?? [];
  return raw.filter((_, at) => at % 2 === 1 && raw[at - 1]?.toLowerCase() === name);
};

describe('a stored input', () => {
  it.each([
    ['bearer', 'authorization', `Bearer ${VALUE}`],
    ['key', 'x-api-key', VALUE],
    ['signed', 'x-signature', `v1 ${createHmac('sha256', VALUE).update('').digest('hex')}`],
  ])('%s is put into the header %s', async (key, name, value) => {
    expect(await call(`/i/${key}/v1/rates?page=2`)).toMatchObject({ status: 200, body: 'ok' });
    expect(header(name)).toEqual([value]);
    expect(seen()).toMatchObject({ method: 'GET', url: '/v1/rates?page=2' });
    expect(header('host')).toEqual([HOST]);
  });

  it('is put into the query behind what the caller sent', async () => {
    await call('/i/param/v1/rates');
    expect(seen()?.url).toBe(`/v1/rates?api_key=${VALUE}`);
    await call('/i/param/v1/accounts/a%20b/postings?status=booked&x=%C3%A9');
    expect(seen()?.url).toBe(`/v1/accounts/a%20b/postings?status=booked&x=%C3%A9&api_key=${VALUE}`);
    expect(header('authorization')).toEqual([]);
    await call('/i/param/v1/rates?a=1&');
    expect(seen()?.url).toBe(`/v1/rates?a=1&api_key=${VALUE}`);
  });

  it('signs a request and is not sent', async () => {
    const body = '{"amount":1}';
    await call('/i/signed/v1/transfers', { method: 'POST', body });
    expect(header('x-signature')).toEqual([`v1 ${createHmac('sha256', VALUE).update(body).digest('hex')}`]);
    await call('/i/request/v1/rates?b=2&a=1');
    const hash = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';
    const text = `v1\nGET\n/v1/rates\na=1&b=2\n1800000000\n${hash}`;
    expect(header('x-signature')).toEqual([
      `t=1800000000,v1=${createHmac('sha256', VALUE).update(text).digest('hex')}`,
    ]);
    expect(JSON.stringify(upstreams.good.seen)).not.toContain(VALUE);
  });

  it.each([
    ['as a bearer token', (token: string) => ({ authorization: `Bearer ${token}` })],
    ['as proxy credentials', (token: string) => ({ 'proxy-authorization': basic(token) })],
    ['as the API key that an SDK insists on', (token: string) => ({ 'x-api-key': token })],
    [
      'as a user without password',
      (token: string) => ({ authorization: `Basic ${Buffer.from(`${token}:`).toString('base64')}` }),
    ],
  ])('is used with the principal %s, which is not forwarded', async (_, headers) => {
    expect((await call('/i/key/v1/rates', { headers: headers(test.principal) })).status).toBe(200);
    expect(header('x-api-key')).toEqual([VALUE]);
    const sent = JSON.stringify(seen());
    expect(sent).not.toContain('spc_egr');
    expect(sent).not.toContain(Buffer.from(test.principal).toString('base64').slice(0, 20));
  });

  it('passes bodies and headers both ways, except those of the connection', async () => {
    upstreams.good.answer = (_, response) =>
      response
        .writeHead(201, [
          'x-one',
          '1',
          'x-one',
          '2',
          'set-cookie',
          'a=b',
          'alt-svc',
          'h3=":443"',
          'connection',
          'x-hop',
          'x-hop',
          '1',
        ])
        .end('made');
    const reply = await call('/i/key/v1/transfers', {
      method: 'POST',
      body: 'x'.repeat(50_000),
      headers: {
        'content-type': 'text/plain',
        cookie: 'a=b',
        'x-forwarded-for': '1.2.3.4',
        'x-http-method-override': 'DELETE',
        'x-original-url': '/admin',
        range: 'bytes=0-3',
        'accept-encoding': 'gzip',
        'x-mine': '7',
        'private-token': 'mine',
        'x-goog-api-key': 'mine',
        content_type: 'text/html',
        'x-request-id': '8',
        'x-github-api-version': '2022-11-28',
      },
    });
    expect(reply).toMatchObject({ status: 201, body: 'made', headers: { 'x-one': '1, 2' } });
    expect(Object.keys(reply.headers)).not.toEqual(expect.arrayContaining(['set-cookie']));
    expect([reply.headers['alt-svc'], reply.headers['x-hop'], reply.headers['set-cookie']]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    expect(seen()?.body.length).toBe(50_000);
    const names = (seen()?.rawHeaders ?? [])
      .filter((__, at) => at % 2 === 0)
      .map((name) => name.toLowerCase());
    expect(names.toSorted()).toEqual([
      'accept-encoding',
      'connection',
      'content-length',
      'content-type',
      'host',
      'x-api-key',
      'x-github-api-version',
      'x-request-id',
    ]);
    expect(header('accept-encoding')).toEqual(['identity']);
  });

  it.each([
    ['?x=1', 'application/x-www-form-urlencoded; charset=UTF-8'],
    ['?x=1', 'text/plain;charset="iso-8859-1"'],
    ['?x=1', 'multipart/form-data; boundary=----a'],
    ['?x=1', 'application/json; charset='],
    ['', 'text/plain; charset=utf-16'],
  ])('accepts with the query %j a body that is %s', async (query, type) => {
    const options = { method: 'POST', body: 'x', headers: { 'content-type': type } };
    expect((await call(`/i/key/v1/transfers${query}`, options)).status).toBe(200);
    expect(header('content-type')).toEqual([type]);
  });

  it('returns a redirect as it is', async () => {
    upstreams.good.answer = (_, response) =>
      response.writeHead(302, { location: `https://evil.org/?k=${VALUE}` }).end();
    const reply = await call('/i/key/v1/rates');
    expect(reply.status).toBe(302);
    expect(reply.headers['location']).toBe(`https://evil.org/?k=${'*'.repeat(VALUE.length)}`);
    expect(upstreams.good.seen).toHaveLength(1);
  });
});

describe('a request is refused before anything reaches the upstream', () => {
  it.each([
    ['without a principal', '/i/key/v1/rates', { anonymous: true as const }, 'forbidden'],
    [
      'with two principals',
      '/i/key/v1/rates',
      {
        headers: {
          authorization: `Bearer spc_egr_${'A'.repeat(43)}`,
          'x-api-key': `spc_egr_${'B'.repeat(43)}`,
        },
      },
      'forbidden',
    ],
    ['for an unknown input', '/i/other/v1/rates', {}, 'not_found'],
    ['for another form of target', '/v1/rates', {}, 'not_found'],
    ['for another path', '/i/key/v1/admin', {}, 'route_denied'],
    ['for another method', '/i/key/v1/rates', { method: 'DELETE' }, 'route_denied'],
    ['with HEAD where GET is meant', '/i/key/v1/rates', { method: 'HEAD' }, 'route_denied'],
    ['with a method that no route has', '/i/key/v1/rates', { method: 'OPTIONS' }, 'method_not_allowed'],
    ['with a dot segment', '/i/key/v1/x/../rates', {}, 'ambiguous_target'],
    ['without its selector', '/i/key/v1/accounts/1/postings', {}, 'route_denied'],
    [
      'with its selector twice',
      '/i/key/v1/accounts/1/postings?status=booked&status=open',
      {},
      'ambiguous_target',
    ],
    [
      'with a value of its own in the header',
      '/i/key/v1/rates',
      { headers: { 'x-API-key': 'mine' } },
      'slot_conflict',
    ],
    [
      'with an account of its own beside the header',
      '/i/key/v1/rates',
      { headers: ['x-api-key', 'PRINCIPAL', 'authorization', 'Bearer mine'] },
      'slot_conflict',
    ],
    [
      'with a value of its own twice',
      '/i/key/v1/rates',
      { headers: ['x-api-key', 'PRINCIPAL', 'X-Api-Key', 'mine'] },
      'slot_conflict',
    ],
    ['with a value of its own in the query', '/i/param/v1/rates?api_key=mine', {}, 'slot_conflict'],
    [
      'with a value of its own in the query, in capitals',
      '/i/param/v1/rates?API_KEY=mine',
      {},
      'slot_conflict',
    ],
    ['with a value of its own in PHP’s spelling', '/i/param/v1/rates?api.key=mine', {}, 'slot_conflict'],
    ['with an escaped name', '/i/param/v1/rates?%61pi_key=mine', {}, 'slot_conflict'],
    ['with a value of its own as OData spells it', '/i/param/v1/rates?$api_key=mine', {}, 'slot_conflict'],
    ['with a value of its own within another', '/i/param/v1/rates?x[api_key]=mine', {}, 'slot_conflict'],
    ['with a value of its own in brackets', '/i/param/v1/rates?[api_key]=mine', {}, 'ambiguous_target'],
    ['with a value of its own in half a bracket', '/i/param/v1/rates?api[key=mine', {}, 'ambiguous_target'],
    [
      'with its selector again, in brackets',
      '/i/key/v1/accounts/1/postings?[status]=deleted&status=booked',
      {},
      'ambiguous_target',
    ],
    [
      'with its selector again, behind a second question mark',
      '/i/key/v1/accounts/1/postings??status=deleted&status=booked',
      {},
      'ambiguous_target',
    ],
    [
      'with a method in the query, in brackets',
      '/i/key/v1/transfers?[_method]=DELETE',
      { method: 'POST' },
      'ambiguous_target',
    ],
    ['with its principal in the query', '/i/param/v1/rates?x=spc_egr_x', {}, 'slot_conflict'],
    [
      'with a body over the limit',
      '/i/key/v1/transfers',
      { method: 'POST', body: 'x'.repeat(100_001) },
      'too_large',
    ],
    [
      'with a body that is too long to sign',
      '/i/signed/v1/transfers',
      { method: 'POST', body: 'x'.repeat(1_001) },
      'too_large',
    ],
    [
      'with a body of unknown length to sign',
      '/i/signed/v1/transfers',
      { method: 'POST', body: 'x', headers: ['transfer-encoding', 'chunked'] },
      'length_required',
    ],
    ['for an upstream that nobody known certifies', '/i/untrusted/v1/rates', {}, 'upstream_untrusted'],
    ['for an upstream with another’s certificate', '/i/misnamed/v1/rates', {}, 'upstream_untrusted'],
    ['for an upstream of TLS 1.1', '/i/old/v1/rates', {}, 'upstream_untrusted'],
  ])('%s', async (_, path, options, code) => {
    const swap = (word: string) => (word === 'PRINCIPAL' ? test.principal : word);
    const headers =
      'headers' in options && Array.isArray(options.headers) ? { headers: options.headers.map(swap) } : {};
    const reply = await call(path, { ...options, ...headers } as Parameters<typeof call>[1]);
    expect(reply.code ?? reply.headers['platform-egress-error']).toBe(code);
    expect(reply.status).toBeGreaterThanOrEqual(400);
    if (reply.body !== '') {
      expect(JSON.parse(reply.body)).toMatchObject({
        code,
        error: { code },
        trace_id: expect.stringMatching(/^[0-9a-f]{32}$/),
      });
    }
    for (const upstream of Object.values(upstreams)) expect(upstream.seen).toEqual([]);
  });

  it.each(['X_Api_Key', 'x.api.key', 'X-Api_Key', 'authorization'])(
    'with a value of its own in %s',
    async (name) => {
      const headers = ['x-api-key', test.principal, name, 'mine'];
      expect((await call('/i/key/v1/rates', { headers })).code).toBe('slot_conflict');
      expect(upstreams.good.seen).toEqual([]);
    },
  );

  it.each([
    'application/x-www-form-urlencoded; charset=utf-7',
    'application/json;charset="IBM037"',
    'a/b; charset=utf-8; CHARSET=utf-16',
    "a/b; charset*=UTF-8''utf-7",
    'a/b; charset*0=ut; charset*1=f-7',
    'a/b; charset = utf-7',
    'a/b; x="; charset=utf-7"',
  ])('with a query that Django would read by %s', async (type) => {
    const query = 'status=booked&x=1+ACY-status+AD0-deleted';
    const options = { headers: { 'content-type': type } };
    const reply = await call(`/i/key/v1/accounts/1/postings?${query}`, options);
    expect(JSON.parse(reply.body)).toMatchObject({
      code: 'ambiguous_target',
      detail: 'The charset of the content type, in which some servers read the query.',
    });
    expect(upstreams.good.seen).toEqual([]);
  });

  it('and the error names the wrong part without quoting it', async () => {
    const reply = await call('/i/key/v1/sec..ret//rates');
    expect(JSON.parse(reply.body)).toMatchObject({ detail: 'Segment 3 of the path is empty.' });
    expect(reply.body).not.toContain('sec');
  });

  it('with a Host other than the gateway’s', async () => {
    const text = await test.raw(
      `GET /i/key/v1/rates HTTP/1.1\r\nhost: evil.org\r\nauthorization: Bearer ${test.principal}\r\nconnection: close\r\n\r\n`,
    );
    expect(text).toContain('platform-egress-error: invalid_request');
  });

  it('when its value was entered for another definition', async () => {
    const definition = INPUTS['key'] as Definition;
    const envelope = await test.sealed('key', {
      ...definition,
      routes: [{ method: 'GET', path: '/v1/other' }],
    });
    const { reentry } = await test.put({
      stored_inputs: { key: { definition: definition as never, envelope } },
    });
    expect(reentry).toEqual(['key']);
    expect((await call('/i/key/v1/rates')).code).toBe('input_unavailable');
    expect(upstreams.good.seen).toEqual([]);
  });
});

it.each([
  '/i/key/v1/x/%2e%2e/rates',
  '/i/key/v1//rates',
  '/i/key/v1/x/..;/rates',
  '/i/key/v1%2Frates',
  '/i/key/v1%2frates',
  '/i/key/v1%252frates',
  '/i/key/v1\\rates',
  '/i/key/v1/%72ates',
  '/i/key/v1/rates%00',
  '/i/key/v1/rates\0',
  '/i/key/v1/rates%C0%AF',
  '/i/key/v1/rates/',
  '/i/key/v1/rates#x',
  '/i/param/v1/rates?%61pi_key=mine',
  `http://${HOST}/v1/rates`,
  'http://assistant-egress/i/key/v1/rates',
  '*',
])('the target %j is refused before a name is resolved or a value decrypted', async (target) => {
  const before = test.used.opened;
  const text = await test.raw(
    `GET ${target} HTTP/1.1\r\nhost: assistant-egress\r\nauthorization: Bearer ${test.principal}\r\nconnection: close\r\n\r\n`,
  );
  expect(text).toMatch(/^HTTP\/1\.1 40[034] /);
  expect(text).toMatch(/\r\nplatform-egress-error: \w+\r\n/);
  expect([test.used.names, test.used.opened]).toEqual([[], before]);
  expect(upstreams.good.seen).toEqual([]);
  expect((await call('/i/key/v1/rates')).status).toBe(200);
  expect([test.used.names, test.used.opened]).toEqual([[HOST], before + 1]);
});

describe('the answer of an upstream', () => {
  it.each([
    ['in the body', VALUE],
    ['as JSON', JSON.stringify({ you: VALUE })],
    ['in base64', Buffer.from(`user:${VALUE}`).toString('base64')],
    ['in hex', Buffer.from(VALUE).toString('hex')],
  ])('never shows the value: %s', async (_, body) => {
    upstreams.good.answer = (__, response) => {
      response.writeHead(400, { 'x-echo': VALUE, 'content-length': body.length });
      for (const char of body) response.write(char);
      response.end();
    };
    const reply = await call('/i/key/v1/rates');
    expect(reply.status).toBe(400);
    expect(reply.body).toHaveLength(body.length);
    expect(reply.body).not.toContain(body.slice(10, 30));
    expect(reply.headers['x-echo']).toBe('*'.repeat(VALUE.length));
  });

  it.each([
    ['that was sent', PAIR],
    ['of it alone', PASSWORD],
    ['as JSON', JSON.stringify({ user: 'ledger', password: PASSWORD })],
    ['in base64', Buffer.from(PAIR).toString('base64')],
    ['at another place of a base64 text', Buffer.from(`Basic ${PAIR}`).toString('base64')],
  ])('never shows the pair or password of the scheme Basic: %s', async (_, body) => {
    const envelope = await test.sealed(
      'basic',
      INPUTS['basic'] as Definition,
      Buffer.from(PAIR).toString('base64'),
    );
    await test.put({ stored_inputs: { basic: { definition: INPUTS['basic'] as never, envelope } } });
    upstreams.good.answer = (__, response) => {
      response.writeHead(200, { 'x-you-are': PAIR });
      for (const byte of Buffer.from(body)) response.write(Buffer.of(byte));
      response.end();
    };
    const reply = await call('/i/basic/v1/rates');
    expect(header('authorization')).toEqual([`Basic ${Buffer.from(PAIR).toString('base64')}`]);
    expect(reply.headers['x-you-are']).toBe('*'.repeat(PAIR.length));
    expect(reply.body).toHaveLength(body.length);
    expect(reply.body).toContain('*'.repeat(PASSWORD.length - 1));
    expect(reply.body).not.toContain(PASSWORD.slice(-5));
  });

  it('never shows the signature of a request', async () => {
    const code = createHmac('sha256', VALUE).update('').digest();
    upstreams.good.answer = (request, response) => {
      const sent = String(request.headers['x-signature']);
      response.writeHead(200, { 'x-echo': sent }).end(`${sent} ${code.toString('base64')} ${VALUE}`);
    };
    const reply = await call('/i/signed/v1/rates');
    const [hex, base64] = ['*'.repeat(64), '*'.repeat(44)];
    expect(reply.headers['x-echo']).toBe(`v1 ${hex}`);
    expect(reply.body).toBe(`v1 ${hex} ${base64} ${'*'.repeat(VALUE.length)}`);
    const timed = await call('/i/request/v1/rates');
    expect(timed.headers['x-echo']).toBe(`t=1800000000,v1=${hex}`);
  });

  it('is counted if it contains the value, and after a few of them requests are refused', async () => {
    await test.close();
    await open({ reflections: 3 });
    const suspended = async () => {
      const tenant = test.gateway.policies.of({
        capsule_id: 'home',
        app_id: 'ledger',
        assistant_uid: 'uid-1',
      });
      const inputs = [...(tenant?.inputs.values() ?? [])];
      return inputs.flatMap((i) => (tenant && test.gateway.reflections.isSuspended(tenant, i) ? i.key : []));
    };
    upstreams.good.answer = (request, response) =>
      request.url?.includes('tell')
        ? response.writeHead(200, { 'x-you': 'you' }).end(`${VALUE} and ${VALUE}`)
        : response.end('ok');
    const codes = async (paths: readonly string[]) => {
      const replies = [];
      for (const path of paths) replies.push((await call(path)).code);
      return replies;
    };
    expect(await codes(['/i/key/v1/rates?tell', '/i/key/v1/rates', '/i/key/v1/rates?tell'])).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    expect(await suspended()).toEqual([]);
    expect(await codes(['/i/key/v1/rates?tell', '/i/key/v1/rates', '/i/param/v1/rates'])).toEqual([
      undefined,
      'input_suspended',
      undefined,
    ]);
    expect(await suspended()).toEqual(['key']);
    expect(test.log.join('')).toContain('"reflected":true');
    // The same values in another policy change nothing; a value that is entered anew is used.
    const definition = INPUTS['key'] as Definition;
    const old = test.gateway.policies
      .of({ capsule_id: 'home', app_id: 'ledger', assistant_uid: 'uid-1' })
      ?.inputs.get('key')?.envelope;
    await test.put({ stored_inputs: { key: { definition: definition as never, envelope: old! } } });
    expect(await codes(['/i/key/v1/rates'])).toEqual(['input_suspended']);
    await test.put({}, { key: definition });
    expect(await codes(['/i/key/v1/rates'])).toEqual([undefined]);
  });

  it('is only counted if suspension is disabled', async () => {
    await test.close();
    await open({ reflections: 0 });
    upstreams.good.answer = (_, response) => response.end(VALUE);
    for (let count = 0; count < 8; count += 1) expect((await call('/i/key/v1/rates')).code).toBeUndefined();
  });

  it.each(['gzip, chunked', 'gzip', 'chunked, chunked', 'identity'])(
    'is not forwarded if it is framed as %j',
    async (coding) => {
      upstreams.good.answer = (request) => {
        request.socket.end(`HTTP/1.1 200 OK\r\ntransfer-encoding: ${coding}\r\n\r\n3\r\nxyz\r\n0\r\n\r\n`);
      };
      const reply = await call('/i/key/v1/rates');
      expect(reply).toMatchObject({ status: 502 });
      expect(['response_unscannable', 'upstream_failed']).toContain(reply.code);
      expect(reply.body).not.toContain('xyz');
    },
  );

  it('cannot look like a refusal of the gateway itself', async () => {
    upstreams.good.answer = (_, response) =>
      response.writeHead(403, { 'Platform-Egress-Error': 'forbidden', platform_egress_error: 'x' }).end('no');
    const reply = await call('/i/key/v1/rates');
    expect(reply).toMatchObject({ status: 403, body: 'no', code: undefined });
  });

  it('reveals nothing of the value by the bytes that are held back', async () => {
    let write: (text: string) => void = () => undefined;
    upstreams.good.answer = (request, response) => {
      if (!request.url?.includes('watched')) return void response.end('ok');
      response.writeHead(200, { 'content-type': 'text/plain' });
      write = (text) => void response.write(text);
      write('begin\n');
    };
    const came: string[] = [];
    const headers = { host: 'assistant-egress', authorization: `Bearer ${test.principal}` };
    const path = '/i/key/v1/rates?watched';
    const asked = request({ host: '127.0.0.1', port: test.port, path, headers, agent: false }, (response) =>
      response.on('data', (chunk) => came.push(String(chunk))).on('error', () => undefined),
    );
    asked.on('error', () => undefined).end();
    const untilCame = async (text: string) => {
      while (!came.join('').endsWith(text)) await new Promise((resolve) => setTimeout(resolve, 5));
    };
    await untilCame('begin\n');
    // What is seen while the host is silent again, for guesses that begin as the value does, and those that do not.
    for (const guess of [
      VALUE.slice(0, 1),
      VALUE.slice(0, 9),
      `${VALUE.slice(0, 9)}~`,
      '~~~~~~',
      '{"a":1}',
    ]) {
      came.length = 0;
      write(`guess ${guess}`);
      await untilCame('guess ');
      // A whole request after it: nothing more was on its way.
      expect((await call('/i/param/v1/rates')).status).toBe(200);
      expect([guess, came.join('')]).toEqual([guess, 'guess ']);
      write('\n');
      await untilCame(`${guess}\n`);
    }
    asked.destroy();
  });

  const inCharset = (type: string, value: string) =>
    [200, { 'content-type': type }, Buffer.from(value, 'utf16le')] as const;

  it.each([
    ['compressed', (value: string) => [200, { 'content-encoding': 'gzip' }, gzipSync(value)] as const],
    ['in parts', (value: string) => [206, { 'content-range': 'bytes 0-1/9' }, Buffer.from(value)] as const],
    ['in letters of two bytes', (value: string) => inCharset('application/json; charset=utf-16', value)],
    ['in letters of two bytes, in quotes', (value: string) => inCharset('a/b;Charset = "UTF-16LE"', value)],
    ['in two sets of letters', (value: string) => inCharset('a/b;charset=utf-8;charset=utf-32', value)],
    ['in letters that are not ASCII', (value: string) => inCharset('text/plain;charset=IBM037', value)],
    ['in letters that escape signs', (value: string) => inCharset('text/plain;charset=utf-7', value)],
  ])('is not forwarded if it is %s', async (_, make) => {
    const [status, headers, body] = make(VALUE);
    upstreams.good.answer = (__, response) => response.writeHead(status, headers).end(body);
    expect(await call('/i/key/v1/rates')).toMatchObject({ status: 502, code: 'response_unscannable' });
  });

  it.each([
    'application/json',
    'text/html; charset=UTF-8',
    'text/plain; charset="utf8"',
    'text/csv;header=present;charset=ISO-8859-1',
    'text/plain; charset=windows-1252',
    'text/html; charset=Shift_JIS',
    'text/plain; charset=',
  ])('is forwarded, with stars, as %s', async (type) => {
    upstreams.good.answer = (_, response) => response.writeHead(200, { 'content-type': type }).end(VALUE);
    const reply = await call('/i/key/v1/rates');
    expect(reply).toMatchObject({ status: 200, body: '*'.repeat(VALUE.length) });
  });

  it('is forwarded as it arrives: an event does not wait for the next', async () => {
    let next: () => void = () => undefined;
    upstreams.good.answer = (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: 1\n\n');
      next = () => response.end('data: 2\n\n');
    };
    const events: string[] = [];
    await new Promise<void>((resolve, reject) => {
      const headers = { host: 'assistant-egress', authorization: `Bearer ${test.principal}` };
      request(
        { host: '127.0.0.1', port: test.port, path: '/i/key/v1/rates', headers, agent: false },
        (response) => {
          response.on('data', (chunk) => {
            events.push(String(chunk));
            // The second comes only because the first has.
            if (events.length === 1) next();
          });
          response.on('end', resolve);
        },
      )
        .on('error', reject)
        .end();
    });
    expect(events.join('')).toBe('data: 1\n\ndata: 2\n\n');
  });

  it('may be silent for a limited time', async () => {
    await test.close();
    await open({ answerMs: 400 });
    upstreams.good.answer = () => undefined;
    expect(await call('/i/key/v1/rates')).toMatchObject({ status: 504, code: 'upstream_timeout' });
  });

  it('that breaks off is passed on as broken off', async () => {
    upstreams.good.answer = (_, response) => {
      response.writeHead(200, { 'content-length': 100 }).write('half');
      setImmediate(() => response.destroy());
    };
    const reply = await call('/i/key/v1/rates');
    expect(reply.body.length).toBeLessThan(100);
  });
});

describe('a policy that changes', () => {
  it('ends requests whose stored input it no longer has', async () => {
    upstreams.good.answer = () => undefined;
    const open = call('/i/key/v1/rates').catch((error: Error) => error);
    while (upstreams.good.seen.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    await test.put({}, { param: INPUTS['param'] as Definition });
    expect(await open).toBeInstanceOf(Error);
    expect((await call('/i/key/v1/rates')).code).toBe('not_found');
  });

  it('is never replaced by an older one, and is only ever narrowed by half a manifest', async () => {
    await expect(test.put({ generation: 0 })).rejects.toMatchObject({ code: 'stale_generation' });
    const about = { capsule_id: 'home', app_id: 'ledger', assistant_uid: 'uid-1', generation: 9 };
    const narrowed = test.gateway.policies.narrow({
      ...about,
      allowed_hosts: ['new.bank.org'],
      stored_inputs: { key: digest('other') },
    });
    expect(narrowed).toBe(true);
    expect((await call('/i/key/v1/rates')).code).toBe('not_found');
    expect(
      test.gateway.policies.narrow({ ...about, app_id: 'nobody', allowed_hosts: [], stored_inputs: {} }),
    ).toBe(false);
  });
});

describe('an answer with a hash over the value', () => {
  const hashOf = (body: string) => `"${createHash('sha1').update(body).digest('base64url')}"`;
  const echo = (value: string) => `you sent ${value}`;
  /** Answers as Express does, whose entity tags are hashes of bodies. */
  const hashing: RequestListener = (asked, response) => {
    const body = echo(VALUE);
    const tag = hashOf(body);
    const digest = `sha-256=:${createHash('sha256').update(body).digest('base64')}:`;
    const wanted = asked.headers['if-none-match']?.split(', ').includes(tag);
    const lost = asked.headers['if-match']?.split(', ').includes(tag) === false;
    response.writeHead(wanted ? 304 : lost ? 412 : 200, {
      etag: tag,
      'content-digest': digest,
      'repr-digest': digest,
      digest: digest,
      'content-md5': createHash('md5').update(body).digest('base64'),
    });
    response.end(wanted || lost ? '' : body);
  };
  beforeEach(() => {
    upstreams.good.answer = hashing;
  });

  it('does not reveal a guess of the value by a hash', async () => {
    const { body, headers } = await call('/i/key/v1/rates');
    expect(body).toBe(echo('*'.repeat(VALUE.length)));
    expect(headers.etag).toMatch(/^"[A-Za-z0-9._-]+"$/);
    const told = JSON.stringify(headers);
    for (const [name, forms] of [
      ['sha1', ['base64', 'base64url', 'hex']],
      ['sha256', ['base64']],
      ['md5', ['base64']],
    ] as const)
      for (const form of forms) {
        const hash = createHash(name).update(echo(VALUE)).digest(form);
        expect(told).not.toContain(hash.replace(/=+$/, ''));
      }
    expect(Object.keys(headers).filter((name) => /digest|md5/.test(name))).toEqual([]);
    // Nor is a guess sent to the host, which would say whether it is right.
    const guess = { headers: { 'if-none-match': `"x", ${hashOf(echo(VALUE))}` } };
    expect((await call('/i/key/v1/rates', guess)).status).toBe(200);
  });

  it('can be requested by its tag', async () => {
    const { etag = '' } = (await call('/i/key/v1/rates')).headers;
    const again = await call('/i/key/v1/rates', { headers: { 'if-none-match': `"x", W/${etag}, ${etag}` } });
    expect([again.status, again.headers['etag']]).toEqual([304, etag]);
    const post = (tag: string) =>
      call('/i/key/v1/transfers', { method: 'POST', headers: { 'if-match': tag } });
    expect((await post(String(etag))).status).toBe(200);
    expect((await post('"another"')).status).toBe(412);
    // Another input's is none of this one's.
    const other = await call('/i/param/v1/rates', { headers: { 'if-none-match': String(etag) } });
    expect(other.status).toBe(200);
  });
});

it('nothing of a value, a principal or a query is in the log', async () => {
  upstreams.good.answer = (_, response) => response.end(VALUE);
  await call('/i/param/v1/rates?page=secretpage');
  await call('/i/key/v1/rates?x=../', {});
  const text = test.log.join('');
  expect(text).toContain('"input":"param"');
  for (const word of [VALUE, test.principal, 'secretpage', '/v1/rates']) expect(text).not.toContain(word);
});
