import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import type { Contract } from '@space/contracts';
import { traceId } from '@space/contracts/fields';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as z from 'zod';
import { eventually } from '../../../testing/eventually.ts';
import { type Listener, listen } from '../listener.ts';
import { createLogger } from '../log.ts';
import { closeNow, createMetrics, portOf } from '../metrics.ts';
import { SharedSlots } from '../shares.ts';
import { digestOf, newToken } from '../tokens.ts';
import { createControlApp } from './app.ts';
import { capsuleAuthority, provisionerAuthority } from './authorities.ts';

const CONTRACT = {
  title: 'A service',
  audiences: { provisioner: 'prv', capsule: 'dbp' },
  documents: { '/v1/driver': { operation: 'driver', summary: 'A document' } },
  operations: {
    'thing.make': {
      path: '/v1/things/make',
      authority: 'capsule',
      summary: 'Make a thing',
      request: z.strictObject({ capsule_id: z.string(), size: z.int() }),
      response: z.strictObject({ made: z.int(), trace_id: traceId }),
      errors: [],
    },
  },
  meanings: {},
  longest: { request: 1_024, answer: 1_024 },
} as const satisfies Contract;

const once = newToken('dbp');
const often = newToken('dbp');
const other = newToken('dbp');
const heard: string[] = [];
const gate = Promise.withResolvers<void>();
let listener: Listener;

beforeAll(async () => {
  const log = createLogger({ service: 'test', level: 'silent' });
  const metrics = createMetrics();
  const served = createControlApp({
    contract: CONTRACT,
    handlers: {
      'thing.make': async (_, { size }) => {
        heard.push('work');
        if (size === 0) await gate.promise;
        return { made: size };
      },
    },
    documents: { '/v1/driver': Buffer.from('{"a":"document"}') },
    authorities: {
      provisioner: provisionerAuthority(() => []),
      capsule: capsuleAuthority(async (digest) => {
        heard.push('look-up');
        if (digest.equals(digestOf(once))) return { capsule: 'once' };
        if (digest.equals(digestOf(other))) return { capsule: 'other' };
        return digest.equals(digestOf(often)) ? { capsule: 'often' } : undefined;
      }),
    },
    callerKey: (caller) => (caller.authority === 'capsule' && caller.capsule === 'once' ? 'once' : undefined),
    mutations: new SharedSlots({ total: 2, perKey: 1, queued: 4, waitMs: 60_000 }),
    limits: { caller: { perSecond: 0.001, burst: 1 }, refusals: { perSecond: 1_000, burst: 1_000 } },
    log,
    metrics,
  });
  const connections = { total: 100, perAddress: 25 };
  listener = await listen(served, { name: 'control', host: '127.0.0.1', port: 0, connections, log, metrics });
});
afterAll(() => closeNow(listener.server));

/** Sends exactly this head, and a body; the status, with the code where there is one. */
async function send(line: string, headers: Readonly<Record<string, string>>, body = ''): Promise<string> {
  const socket = connect({ port: portOf(listener.server), host: '127.0.0.1' });
  const fields = { Host: 'x', Connection: 'close', 'Content-Length': String(body.length), ...headers };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(Buffer.from(`${line} HTTP/1.1\r\n${lines.join('')}\r\n${body}`, 'latin1'));
  const answer = await text(socket);
  const code = /"code":"([a-z_]+)"/.exec(answer)?.[1];
  return [/^HTTP\/1.1 (\d+)/.exec(answer)?.[1], ...(code === undefined ? [] : [code])].join(' ');
}

const JSON_TYPE = { 'Content-Type': 'application/json' };
const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });

describe('of all faults of a request, a caller gets', () => {
  const nobody = bearer(newToken('dbp').reveal());
  const spent = bearer(once.reveal());
  const good = bearer(often.reveal());
  const bad = '{"capsule_id":"another"';

  it.each<[string, string, Record<string, string>, string, string, string[]]>([
    ['its path before all else', 'PUT /v1/things?x', nobody, bad, '404 not_found', []],
    ['then its method', 'PUT /v1/things/make?x', nobody, bad, '405 method_not_allowed', []],
    ['then its credential', 'POST /v1/things/make?x', nobody, bad, '403 forbidden', ['look-up']],
    ['then its rate', 'POST /v1/things/make?x', spent, bad, '429 rate_limited', ['look-up']],
    ['then its query', 'POST /v1/things/make?x', good, bad, '400 invalid_request', ['look-up']],
    [
      'then the type of its body',
      'POST /v1/things/make',
      good,
      bad,
      '415 unsupported_media_type',
      ['look-up'],
    ],
    [
      'then its body',
      'POST /v1/things/make',
      { ...good, ...JSON_TYPE },
      bad,
      '400 invalid_request',
      ['look-up'],
    ],
    [
      'then its Capsule',
      'POST /v1/things/make',
      { ...good, ...JSON_TYPE },
      `${bad}}`,
      '403 forbidden',
      ['look-up'],
    ],
    [
      'then its form',
      'POST /v1/things/make',
      { ...good, ...JSON_TYPE },
      '{"capsule_id":"often"}',
      '400 invalid_request',
      ['look-up'],
    ],
    [
      'and of none of it when nothing is',
      'POST /v1/things/make',
      { ...good, ...JSON_TYPE },
      '{"capsule_id":"often","size":3}',
      '200',
      ['look-up', 'work'],
    ],
  ])('%s', async (_, line, headers, body, expected, asked) => {
    // Its one request of this life is used up, so that the next is too many.
    if (headers === spent) await send('POST /v1/things/make', { ...spent, ...JSON_TYPE }, '{}');
    heard.length = 0;
    expect([await send(line, headers, body), heard]).toEqual([expected, asked]);
  });
});

describe('a path', () => {
  it.each(['GET /v1/driver', 'GET /v1/driver?', 'GET /v1/driver?x=/v1/things/make', 'GET /healthz?#\\'])(
    'is the part before the query: %s',
    async (line) => expect(await send(line, {})).toBe('200'),
  );

  it.each([
    '/v1/driver/',
    '/V1/driver',
    '//v1/driver',
    '/v1//driver',
    '/v1/./driver',
    '/v1/x/../driver',
    '/v1%2fdriver',
    '/v1/drive%72',
    '/v1\\driver',
    '/v1/driver#',
    '/v1/driver#?',
    '/v1/driver;x',
    '/v1/driver\xa0',
    '/v1/driver\xa0?',
    '//a@b/v1/driver?#',
    'http://x/v1/driver',
    'https://x/healthz?',
    '*',
  ])('has one form, and %s is refused', async (target) => {
    expect(await send(`GET ${target}`, {})).toMatch(/^40[04] (?:not_found|invalid_request)$/);
  });

  it.each(['HEAD', 'OPTIONS', 'POST', 'DELETE', 'TRACE', 'QUERY'])(
    'has one method, and %s is refused',
    async (method) => expect(await send(`${method} /v1/driver`, {})).toMatch(/^405/),
  );
});

describe('a Capsule whose requests take long', () => {
  it('waits for its own ones, and others are served', async () => {
    const make = async (token: string, capsule_id: string, size: number) => {
      const body = JSON.stringify({ capsule_id, size });
      const headers = { ...bearer(token), ...JSON_TYPE };
      const url = `http://127.0.0.1:${portOf(listener.server)}/v1/things/make`;
      return (await fetch(url, { method: 'POST', headers, body })).status;
    };
    heard.length = 0;
    const slow = [0, 0].map((size) => make(often.reveal(), 'often', size));
    await eventually(() => heard.filter((what) => what === 'look-up').length === 2, { what: 'both' });
    expect(await make(other.reveal(), 'other', 1)).toBe(200);
    expect(heard.filter((what) => what === 'work')).toHaveLength(2);
    gate.resolve();
    expect(await Promise.all(slow)).toEqual([200, 200]);
  });
});
