import { createServer, type Server } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { refusal, ServiceError } from '../errors.ts';
import { RateLimit } from '../limits.ts';
import { createLogger } from '../log.ts';
import { closeNow, createMetrics, portOf } from '../metrics.ts';
import { newToken } from '../tokens.ts';
import { Edge, type EdgeRoute, type Exchange, noRoute, sendJson } from './edge.ts';

/** The answer to a request, byte for byte, and its log line. */

let server: Server;
afterEach(() => closeNow(server));

const known = newToken('dbp').reveal();
const TRACE = '0af7651916cd43dd8448eb211c80319c';
const LOOK: EdgeRoute<string> = { method: 'GET', operation: 'look' };
const MAKE: EdgeRoute<string> = { method: 'POST', operation: 'make' };
const authority: NonNullable<EdgeRoute<string>['authority']> = {
  audience: 'dbp',
  authenticate: async (token) => (token?.reveal() === known ? 'somebody' : undefined),
};

async function serving(
  route: EdgeRoute<string>,
  work: (exchange: Exchange<string>) => unknown = () => ({}),
  options: { burst?: number; failures?: number; key?: string; write?: string } = {},
) {
  const lines: Record<string, unknown>[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line)) };
  const exchanges: Exchange<string>[] = [];
  const targets: (string | undefined)[] = [];
  const edge = new Edge<string>({
    bodyLimit: 32,
    callerKey: () => options.key,
    callerLimit: new RateLimit({ perSecond: 0.01, burst: options.burst ?? 100 }),
    failureLimit: new RateLimit({ perSecond: 0.01, burst: options.failures ?? 2 }),
    translate: (error) => (error === 'known' ? new ServiceError('conflict', 'translated') : error),
    log: createLogger({ service: 'test', level: 'debug', destination }),
    metrics: createMetrics(),
  });
  const serve = edge.serve(route, async (exchange, response) => {
    exchanges.push(exchange);
    if (options.write !== undefined) response.write(options.write);
    sendJson(response, 200, JSON.stringify(await work(exchange)));
  });
  server = createServer(
    edge.listener((request, response) => {
      targets.push(request.url);
      if (request.url === '/nowhere') edge.fail(request, response, noRoute());
      else void serve(request, response);
    }),
  );
  for (const event of ['checkContinue', 'checkExpectation'])
    server.on(event, (request, response) => server.emit('request', request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  /** Everything that is received until the server or the client disconnects. */
  const raw = (request: string) => {
    const socket = connect(portOf(server), '127.0.0.1');
    socket.end(request, 'latin1');
    return text(socket);
  };
  const ask = async (line: string, headers: readonly string[] = [], body = '') => {
    const head = [`${line} HTTP/1.1`, 'host: a', ...headers].join('\r\n');
    const answer = await raw(`${head}\r\n\r\n${body}`);
    const [answered = '', ...rest] = answer.split('\r\n\r\n');
    return {
      status: Number(answer.split(' ')[1]),
      head: answered.toLowerCase(),
      body: rest.join('\r\n\r\n'),
    };
  };
  return { edge, lines, exchanges, targets, raw, ask };
}
const POSTED = ['content-type: application/json'];
const posted = (body: string) => [...POSTED, `content-length: ${Buffer.byteLength(body)}`];
const bearer = (token = known) => `authorization: Bearer ${token}`;
const LAST = 'connection: close';
const coded = (code: string, trace = TRACE) => JSON.stringify({ error: { code }, trace_id: trace });
const traced = `traceparent: 00-${TRACE}-b7ad6b7169203331-01`;

describe('an answer', () => {
  it('forbids caching and sniffing, and leaves its connection open', async () => {
    const { ask } = await serving(LOOK);
    const { status, head, body } = await ask('GET /look');
    expect([status, body]).toEqual([200, '{}']);
    expect(head).toContain('\r\ncache-control: no-store\r\n');
    expect(head).toContain('\r\nx-content-type-options: nosniff\r\n');
    expect(head).toContain('\r\ncontent-type: application/json\r\n');
    expect(head).toContain('\r\ncontent-length: 2\r\n');
    expect(head).not.toContain(LAST);
  });

  it('closes its connection once the service ends', async () => {
    const { ask, edge } = await serving(LOOK);
    edge.drain();
    expect((await ask('GET /look')).head).toContain(LAST);
  });

  it('is logged with its operation, at level debug for frequent requests of programs', async () => {
    for (const [quiet, level] of [
      [undefined, 'info'],
      [false, 'info'],
      [true, 'debug'],
    ] as const) {
      const route = quiet === undefined ? LOOK : { ...LOOK, quiet };
      const { ask, lines } = await serving(route);
      await ask('GET /look', [traced]);
      await eventually(() => lines.length === 1, { what: 'its line' });
      const expected = { level, operation: 'look', status: 200, code: 'ok', trace_id: TRACE };
      expect(lines[0]).toMatchObject(expected);
      closeNow(server);
    }
  });
});

it('a stranger has so many lines, and a caller within its rate one for each request', async () => {
  const { ask, lines } = await serving({ ...LOOK, authority }, undefined, { failures: 10 });
  const ofRequests = (status: number) =>
    lines.filter((line) => line['msg'] === 'request' && line['status'] === status).length;
  const many = async (count: number, headers: readonly string[], target = '/look') => {
    for (let i = 0; i < count; i += 50)
      await Promise.all(Array.from({ length: 50 }, () => ask(`GET ${target}`, headers)));
  };
  await many(1_200, [bearer()]);
  await eventually(() => ofRequests(200) === 1_200, { what: 'a line for each' });
  let sent = 0;
  const leftOut = () => lines.find(({ left_out }) => left_out !== undefined);
  // As many as it takes, however slow the machine is.
  await eventually(
    async () => {
      await many(1_000, [], '/nowhere');
      sent += 1_000;
      return leftOut();
    },
    { what: 'the number of those without a line' },
  );
  expect(leftOut()).toMatchObject({ event: 'request', address: '127.0.0.1' });
  expect(ofRequests(404)).toBeLessThan(sent);
});

describe('a target', () => {
  it('is given to the router as only its path', async () => {
    const { ask, targets } = await serving(LOOK);
    for (const target of ['/look?a=b', '/look', '/look?a?b', '/!~%23']) await ask(`GET ${target}`);
    expect(targets).toEqual(['/look', '/look', '/look', '/!~%23']);
  });

  it.each(['http://a/look', '/look#a', '/lo\xe4k', '/\x7f'])(
    'that is not plain is refused: %j',
    async (target) => {
      const { ask, targets } = await serving(LOOK);
      const { status, body } = await ask(`GET ${target}`, [traced]);
      // The parser itself refuses some of these.
      expect([404, 400]).toContain(status);
      if (status === 404) expect(body).toBe(coded('not_found'));
      expect(targets).toEqual([]);
    },
  );
});

describe('a refusal', () => {
  it('of a method names the allowed one, before a credential is checked', async () => {
    const { ask, exchanges } = await serving({ ...LOOK, authority });
    const { status, head, body } = await ask('POST /look', [traced, ...posted('{}')], '{}');
    expect([status, body]).toEqual([405, coded('method_not_allowed')]);
    expect(head).toContain('\r\nallow: get');
    expect(exchanges).toEqual([]);
  });

  it('of a credential comes before one of query and body', async () => {
    const { ask, exchanges } = await serving({ ...MAKE, authority });
    for (const target of ['/make', '/make?a=b'])
      expect((await ask(`POST ${target}`, [traced, ...posted('x')], 'x')).body).toBe(coded('forbidden'));
    expect(exchanges).toEqual([]);
  });

  it('of a query on a POST comes before one of its body, and a GET may have one', async () => {
    const made = await serving(MAKE);
    const { status, body } = await made.ask('POST /make?a', [traced, ...posted('{}')], '{}');
    expect([status, body]).toEqual([400, coded('invalid_request')]);
    expect((await made.ask('POST /make', posted('{}'), '{}')).status).toBe(200);
    closeNow(server);
    const looked = await serving(LOOK);
    expect((await looked.ask('GET /look?a')).status).toBe(200);
  });

  it('of a caller with too many requests has Retry-After; a caller without a key is not counted', async () => {
    const counted = await serving({ ...LOOK, authority }, undefined, { burst: 1, key: 'k' });
    expect((await counted.ask('GET /look', [bearer()])).status).toBe(200);
    const { status, head, body } = await counted.ask('GET /look', [bearer(), traced]);
    expect([status, body]).toEqual([429, coded('rate_limited')]);
    expect(head).toMatch(/\r\nretry-after: \d+\r\n/);
    closeNow(server);
    const free = await serving({ ...LOOK, authority }, undefined, { burst: 1 });
    for (let i = 0; i < 3; i += 1) expect((await free.ask('GET /look', [bearer()])).status).toBe(200);
  });

  it('of an address that was refused too often comes before any look-up, with Retry-After', async () => {
    const { ask } = await serving({ ...LOOK, authority });
    const statuses = [];
    for (let i = 0; i < 3; i += 1)
      statuses.push((await ask('GET /look', [bearer(newToken('dbp').reveal())])).status);
    expect(statuses).toEqual([403, 403, 429]);
    expect((await ask('GET /look', [bearer()])).head).toMatch(/\r\nretry-after: \d+\r\n/);
  });
});

describe('an error', () => {
  it.each<[string, () => never, number, string, string | undefined]>([
    [
      'is told by its code',
      () => {
        throw refusal();
      },
      403,
      'forbidden',
      undefined,
    ],
    [
      'is translated',
      () => {
        throw 'known';
      },
      409,
      'conflict',
      undefined,
    ],
    [
      'is internal when nobody knows it',
      () => {
        throw new Error('secret');
      },
      500,
      'internal',
      'ServiceError',
    ],
    [
      'of ours is ours',
      () => {
        throw new ServiceError('unavailable', 'x');
      },
      503,
      'unavailable',
      'ServiceError',
    ],
  ])('%s', async (_, work, status, code, fault) => {
    const { ask, lines } = await serving(LOOK, work);
    const answer = await ask('GET /look', [traced]);
    expect([answer.status, answer.body]).toEqual([status, coded(code)]);
    expect(answer.head).not.toContain('retry-after');
    await eventually(() => lines.length === 1, { what: 'its line' });
    expect(lines[0]).toMatchObject({ code, status, level: fault === undefined ? 'info' : 'error' });
    expect('err' in lines[0]!).toBe(fault !== undefined);
  });

  it('after the answer has begun ends the connection', async () => {
    const { raw, lines } = await serving(LOOK, () => expect.fail(), { write: 'begun' });
    expect(await raw('GET /look HTTP/1.1\r\nhost: a\r\n\r\n')).not.toContain('internal');
    await eventually(() => lines.length === 1, { what: 'its line' });
    expect(lines[0]).toMatchObject({ code: 'internal', cut_short: true });
  });

  it('of a request that did not come through the listener is reported as an internal error', async () => {
    const { edge } = await serving(LOOK);
    closeNow(server);
    const serve = edge.serve(LOOK, (_, response) => sendJson(response, 200, '{}'));
    server = createServer((request, response) => void serve(request, response));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const socket = connect(portOf(server), '127.0.0.1');
    socket.end('GET / HTTP/1.1\r\nhost: a\r\n\r\n');
    expect(await text(socket)).toContain(coded('internal', ''));
  });
});

describe('a body', () => {
  it('is an object on a POST, and nothing is read on a GET', async () => {
    const made = await serving(MAKE);
    expect((await made.ask('POST /make', posted('{"a":1}'), '{"a":1}')).status).toBe(200);
    expect(made.exchanges[0]).toMatchObject({ body: { a: 1 }, caller: undefined });
    expect((await made.ask('POST /make', ['content-length: 2'], '{}')).status).toBe(415);
    closeNow(server);
    const looked = await serving({ ...LOOK, authority });
    await looked.ask('GET /look', [bearer(), traced]);
    expect(looked.exchanges[0]).toMatchObject({ body: {}, caller: 'somebody', traceId: TRACE, notes: {} });
  });

  it('gets 100 Continue if its caller waits for that, once everything else is valid', async () => {
    const { raw } = await serving(MAKE);
    const head = 'POST /make HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 2\r\n';
    const waiting = await raw(`${head}expect: 100-Continue\r\n\r\n{}`);
    expect(waiting).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 /);
    expect(await raw(`${head}\r\n{}`)).toMatch(/^HTTP\/1\.1 200 /);
    closeNow(server);
    const refusing = await serving({ ...MAKE, authority });
    expect(await refusing.raw(`${head}expect: 100-continue\r\n\r\n`)).toMatch(/^HTTP\/1\.1 403 /);
  });

  it('that will not be read ends its connection if it is long or of unknown length', async () => {
    const { raw } = await serving({ ...MAKE, authority }, undefined, { failures: 100 });
    // What else comes is of the parser, which misses the rest of the body.
    const isLast = async (headers: string, body: string) => {
      const answer = await raw(`POST /make HTTP/1.1\r\nhost: a\r\n${headers}\r\n\r\n${body}`);
      return answer.split('\r\n\r\n', 1)[0]?.toLowerCase().includes(LAST);
    };
    // As long as it may be, and not all of it there yet.
    expect(await isLast('content-length: 32', 'x')).toBe(false);
    expect(await isLast('content-length: 33', 'x')).toBe(true);
    expect(await isLast('transfer-encoding: chunked', '1\r\nx\r\n')).toBe(true);
    for (const expectation of ['100-continue', 'something else'])
      expect(await isLast(`expect: ${expectation}\r\ncontent-length: 2`, '')).toBe(true);
    // All of it is there.
    expect(await isLast('transfer-encoding: chunked', '0\r\n\r\n')).toBe(false);
  });
});
