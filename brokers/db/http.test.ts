import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { newToken } from '@space/broker-kit';
import { DATABASE } from '@space/contracts/database';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { DRIVER_PATH } from './testing/broker.ts';
import { type Fixture, openFixture } from './testing/postgres.ts';

/** Counts the hashes that the broker takes. */
const hashes = vi.hoisted(() => ({ count: 0 }));
vi.mock('node:crypto', async (original) => {
  const crypto = await original<typeof import('node:crypto')>();
  return {
    ...crypto,
    hash: (...args: Parameters<typeof crypto.hash>) => {
      hashes.count += 1;
      return crypto.hash(...args);
    },
    createHash: (algorithm: string) => {
      hashes.count += 1;
      return crypto.createHash(algorithm);
    },
  };
});

/** The least of five: what the broker does meanwhile for itself takes hashes too, what it does for a caller it does each time. */
async function fewest(measure: () => Promise<number[]>): Promise<number[]> {
  const rounds = [];
  for (let round = 0; round < 5; round++) rounds.push(await measure());
  return rounds.reduce((least, round) => round.map((count, index) => Math.min(count, least[index] ?? count)));
}

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture();
});
afterAll(() => fixture.close());

/** Sends bytes as they are and returns all that comes back until the end, or until the answer is whole. */
async function raw(bytes: string | Buffer, { end = true } = {}): Promise<string> {
  const socket: Socket = connect(fixture.broker.port, '127.0.0.1');
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1');
  });
  if (end) socket.end(bytes);
  else socket.write(bytes);
  await once(socket, 'close');
  return text;
}

const head = (path: string, ...headers: string[]) =>
  `POST ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${headers.map((line) => `${line}\r\n`).join('')}\r\n`;

const ERROR = /\{"error":\{"code":"([a-z_]+)"\},"trace_id":"[0-9a-f]{32}"\}$/;

describe('discovery', () => {
  it('serves the driver document byte for byte', async () => {
    const response = await fetch(`${fixture.broker.url}/v1/driver`);
    expect(response.headers.get('content-type')).toBe('application/json');
    expect(Buffer.from(await response.arrayBuffer())).toEqual(readFileSync(DRIVER_PATH));
  });

  it('is alive without a credential', async () => {
    const response = await fetch(`${fixture.broker.url}/healthz`);
    expect([response.status, await response.json()]).toEqual([200, { status: 'ok' }]);
  });
});

describe('a refusal', () => {
  it('is the same bytes for whatever is wrong with the credential', async () => {
    const { broker } = fixture;
    const principal = await broker.capsule('mine');
    const foreign = await broker.capsule('theirs');
    const retired = await broker.capsule('gone');
    await retired.dropAll('gone');
    const clients = [
      broker.as(undefined),
      broker.as('nonsense'),
      broker.as(newToken('dbp').reveal()),
      broker.as(newToken('prv').reveal()),
      broker.as(newToken('osp').reveal()),
      retired,
    ];
    const shapes = new Set<string>();
    for (const { path, authority } of Object.values(DATABASE.operations)) {
      const wrong =
        authority === 'capsule' ? [...clients, foreign, broker.provisioner] : [...clients, principal];
      for (const client of wrong) {
        for (const capsule_id of ['mine', 'unknown', 'gone']) {
          const reply = await client.post(path, {
            capsule_id,
            app_id: 'app',
            principal_token: principal.token,
          });
          if (client === retired && authority !== 'capsule') expect(reply.status).toBe(403);
          const headers = [...reply.headers].filter(([key]) => key !== 'date');
          shapes.add(JSON.stringify([reply.status, headers, reply.text.replace(reply.json.trace_id, '')]));
        }
      }
    }
    expect([...shapes]).toHaveLength(1);
    expect([...shapes][0]).toContain('[403,');
  });

  it('comes before the body is read', async () => {
    const reply = await fixture.broker
      .as(undefined)
      .post('/v1/capsules/drop', '{not json', { 'content-type': 'text/plain' });
    expect(reply.status).toBe(403);
  });

  it('cannot be bypassed with a second Authorization header, a query or a body', async () => {
    const good = `Bearer ${fixture.mounts.provisioner}`;
    const body = '{"capsule_id":"x"}';
    const lines = ['Content-Type: application/json', `Content-Length: ${body.length}`];
    const path = '/v1/capsules/finalize';
    expect(
      await raw(head(path, `Authorization: ${good}`, `Authorization: ${good}`, ...lines) + body),
    ).toMatch(/^HTTP\/1.1 403 /);
    expect(await raw(head(`${path}?access_token=${fixture.mounts.provisioner}`, ...lines) + body)).toMatch(
      /^HTTP\/1.1 403 /,
    );
    const accepted = await raw(head(path, `Authorization: ${good}`, ...lines) + body, { end: false });
    expect(accepted).toMatch(/^HTTP\/1.1 404 /);
  });

  it('works with the same number of statements and hashes for every credential', async () => {
    const { broker } = fixture;
    const foreign = await broker.capsule('count-a');
    await broker.capsule('count-b');
    const retired = await broker.capsule('count-c');
    await retired.dropAll('count-c');
    const { connections } = broker.context;
    const counts: number[] = [];
    const { read } = connections.lookup;
    for (const client of [
      broker.as(undefined),
      broker.as('nonsense'),
      broker.as(newToken('dbp').reveal()),
      broker.as(newToken('prv').reveal()),
      retired,
      foreign,
    ]) {
      let count = 0;
      Object.assign(connections.lookup, {
        read: (...args: Parameters<typeof read>) => {
          count += 1;
          return read(...args);
        },
      });
      const refused = async () => {
        count = 0;
        const before = hashes.count;
        expect((await client.create('count-b', 'app')).status).toBe(403);
        return [count, hashes.count - before];
      };
      counts.push(...(await fewest(refused)));
      Object.assign(connections.lookup, { read });
    }
    expect(counts).toEqual(Array(12).fill(1));
  });
});

describe('a hostile request', () => {
  const good = () => `Authorization: Bearer ${fixture.mounts.provisioner}`;
  const json = 'Content-Type: application/json';
  const path = '/v1/capsules/finalize';
  const withBody = (body: string | Buffer, type = json) =>
    Buffer.concat([
      Buffer.from(head(path, good(), type, `Content-Length: ${Buffer.byteLength(body)}`)),
      Buffer.from(body),
    ]);

  it.each<[string, () => string | Buffer, number, string]>([
    ['a body over 16 KiB', () => withBody(`{"capsule_id":"${'a'.repeat(17_000)}"}`), 413, 'too_large'],
    ['1 MiB announced', () => head(path, good(), json, 'Content-Length: 1048576'), 413, 'too_large'],
    ['no content type', () => withBody('{"capsule_id":"x"}', 'X-Nothing: x'), 415, 'unsupported_media_type'],
    [
      'a form',
      () => withBody('capsule_id=x', 'Content-Type: application/x-www-form-urlencoded'),
      415,
      'unsupported_media_type',
    ],
    [
      'UTF-16',
      () => withBody('{}', 'Content-Type: application/json; charset=utf-16'),
      415,
      'unsupported_media_type',
    ],
    [
      'another parameter',
      () => withBody('{}', 'Content-Type: application/json; profile=x'),
      415,
      'unsupported_media_type',
    ],
    [
      'a compressed body',
      () => withBody('{}', `${json}\r\nContent-Encoding: gzip`),
      415,
      'unsupported_media_type',
    ],
    ['duplicate keys', () => withBody('{"capsule_id":"x","capsule_id":"y"}'), 400, 'invalid_request'],
    ['__proto__', () => withBody('{"capsule_id":"x","__proto__":{}}'), 400, 'invalid_request'],
    ['an unknown property', () => withBody('{"capsule_id":"x","sql":"y"}'), 400, 'invalid_request'],
    [
      'a depth of thousands',
      () => withBody('{"capsule_id":' + '['.repeat(5_000) + ']'.repeat(5_000) + '}'),
      400,
      'invalid_request',
    ],
    ['a NUL', () => withBody('{"capsule_id":"x\\u0000"}'), 400, 'invalid_request'],
    ['an array', () => withBody('[]'), 400, 'invalid_request'],
    ['null', () => withBody('null'), 400, 'invalid_request'],
    ['a reserved id', () => withBody('{"capsule_id":"postgres"}'), 400, 'invalid_request'],
    ['an id in capitals', () => withBody('{"capsule_id":"Home"}'), 400, 'invalid_request'],
    ['an id of look-alikes', () => withBody('{"capsule_id":"hоme"}'), 400, 'invalid_request'],
    ['an id of 41', () => withBody(`{"capsule_id":"${'a'.repeat(41)}"}`), 400, 'invalid_request'],
    ['a line break after the id', () => withBody('{"capsule_id":"home\\n"}'), 400, 'invalid_request'],
    ['no body at all', () => head(path, good(), json), 400, 'invalid_request'],
    ['a query', () => head(`${path}?x=1`, good(), json), 400, 'invalid_request'],
    [
      'a body cut short',
      () => head(path, good(), json, 'Content-Length: 50') + '{"capsule_id"',
      400,
      'invalid_request',
    ],
    [
      'a lying chunk',
      () => head(path, good(), json, 'Transfer-Encoding: chunked') + 'zz\r\n',
      400,
      'invalid_request',
    ],
    [
      'two lengths',
      () => head(path, good(), json, 'Content-Length: 2', 'Content-Length: 3') + '{}',
      400,
      'invalid_request',
    ],
    ['no HTTP', () => 'HELO\r\n\r\n', 400, 'invalid_request'],
    ['a head without end', () => `${head(path, `X-Long: ${'x'.repeat(20_000)}`)}`, 431, 'invalid_request'],
    ['an unknown path', () => head('/v1/databases', good(), json), 404, 'not_found'],
    ['a path with dots', () => head('/v1/../v1/capsules/finalize', good(), json), 404, 'not_found'],
    ['a path in capitals', () => head('/V1/capsules/finalize', good(), json), 404, 'not_found'],
    ['a trailing slash', () => head(`${path}/`, good(), json), 404, 'not_found'],
    ['a broken escape', () => head('/%zz', good(), json), 404, 'not_found'],
    ['another method', () => head(path, good(), json).replace('POST', 'DELETE'), 405, 'method_not_allowed'],
    ['HEAD for a GET', () => head('/healthz').replace('POST', 'PUT'), 405, 'method_not_allowed'],
  ])('is answered with only a code: %s', async (_, bytes, status, code) => {
    const answer = await raw(bytes());
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(answer.split('\r\n\r\n')[1]).toMatch(ERROR);
    expect(ERROR.exec(answer)?.[1]).toBe(code);
    expect(answer.toLowerCase()).not.toContain('express');
  });

  it('with an endless head is ended', async () => {
    const answer = await raw('POST /v1/capsules/drop HTTP/1.1\r\nHost: x\r\nX-Slow: ', { end: false });
    expect(answer).toMatch(/^HTTP\/1.1 400 /);
    expect(answer).toMatch(ERROR);
  });

  it('is not asked for a body that will not be read', async () => {
    const refused = await raw(head(path, json, 'Expect: 100-continue', 'Content-Length: 2'));
    expect(refused).toMatch(/^HTTP\/1.1 403 /);
    const invited = await raw(
      `${head(path, good(), json, 'Expect: 100-continue', 'Content-Length: 18')}{"capsule_id":"x"}`,
      { end: false },
    );
    expect(invited).toMatch(/^HTTP\/1.1 100 Continue\r\n\r\nHTTP\/1.1 404 /);
  });
});

describe('every request', () => {
  it('has one log line with its trace id, and nothing of its content', async () => {
    const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
    const reply = await fixture.broker.provisioner.post(
      '/v1/capsules/finalize?token=canary',
      { capsule_id: 'unknown' },
      { traceparent: `00-${trace}-00f067aa0ba902b7-01` },
    );
    expect(reply.json.trace_id).toBe(trace);
    const lines = fixture.broker.log.filter((line) => line.includes(trace)).map((line) => JSON.parse(line));
    expect(lines).toMatchObject([
      { msg: 'request', operation: 'capsule.finalize', status: 400, code: 'invalid_request' },
    ]);
    expect(JSON.stringify(lines)).not.toMatch(/canary|spc_prv/);
  });

  it('of a kubelet for health is logged only at level debug', async () => {
    const quiet = await fixture.replica({ environment: { LOG_LEVEL: 'info' } });
    for (const { url, log } of [quiet, fixture.broker]) {
      const before = log.length;
      expect((await fetch(`${url}/healthz`)).status).toBe(200);
      await fetch(`${url}/healthz`, { method: 'PUT' });
      const told = () =>
        log
          .slice(before)
          .map((line) => JSON.parse(line))
          .filter(({ operation }) => operation !== undefined);
      await vi.waitFor(() => expect(told().some(({ status }) => status === 405)).toBe(true), {
        timeout: 240_000,
      });
      const healthy = told().filter(({ operation }) => operation === 'healthz');
      expect(new Set(healthy.map(({ level }) => level))).toEqual(new Set(log === quiet.log ? [] : ['debug']));
    }
    await quiet.stop();
  });

  it('is counted', async () => {
    const text = await (await fetch(`http://127.0.0.1:${fixture.broker.metricsPort}/metrics`)).text();
    expect(text).toMatch(
      /space_http_request_seconds_count\{operation="capsule.finalize",status="403",code="forbidden"\} \d+/,
    );
    expect(text).toMatch(/^space_db_spares [0-3]$/m);
    expect((await fetch(`http://127.0.0.1:${fixture.broker.metricsPort}/`)).status).toBe(404);
  });
});
