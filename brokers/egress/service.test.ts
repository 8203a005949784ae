import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createLogger, newToken } from '@space/broker-kit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../testing/eventually.ts';
import { readConfig } from './config.ts';
import { type Service, startService } from './service.ts';
import { digest } from './testing/gateway.ts';

const run = promisify(execFile);
const token = newToken('prv').reveal();
const observer = newToken('obs').reveal();
const VALUE = 'sk_live_canary_5bb1a2';
const definition = {
  host: 'api.bank.org',
  routes: [{ method: 'GET', path: '/v1/rates' }],
  header: 'X-Api-Key',
};
const about = { capsule_id: 'home', app_id: 'ledger', assistant_uid: 'uid-1' };
const log: string[] = [];
let directory: string;
let service: Service;
let environment: Record<string, string>;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'space-egress-'));
  const file = (name: string, text: string) => {
    writeFileSync(join(directory, name), text, { mode: 0o600 });
    return join(directory, name);
  };
  environment = {
    SPACE_NAME: 'test',
    LISTEN_HOST: '127.0.0.1',
    DATA_PORT: '0',
    CONTROL_PORT: '0',
    METRICS_PORT: '0',
    PROVISIONER_TOKEN_FILE: file('token', token),
    OBSERVER_TOKEN_FILE: file('observer', observer),
    CUSTODY_KEY_FILE: file(
      'ring',
      JSON.stringify({
        primary: 'k1',
        keys: { k1: Buffer.from(digest('key'), 'hex').toString('base64url') },
      }),
    ),
    FIXED_HOSTS: '',
  };
  const logger = createLogger({
    service: 'egress',
    level: 'debug',
    destination: { write: (line) => void log.push(line) },
  });
  service = await startService(readConfig(environment), logger);
});
afterAll(async () => {
  expect(await service.stop()).toBe(true);
  rmSync(directory, { recursive: true, force: true });
});

async function post(path: string, body: unknown, bearer: string | undefined = token) {
  const response = await fetch(`http://127.0.0.1:${service.controlPort}${path}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(bearer === '' ? {} : { authorization: `Bearer ${bearer}` }),
    },
    body: JSON.stringify(body),
  });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}
const seal = (changes: object = {}) =>
  post('/v1/inputs/seal', { ...about, input: 'bank', definition, value: VALUE, ...changes });
const put = async (changes: object = {}) =>
  post('/v1/policies/put', {
    ...about,
    generation: 1,
    revision: digest('revision'),
    principals: [digest('principal')],
    addresses: ['127.0.0.1'],
    allowed_hosts: ['rates.ecb.org'],
    stored_inputs: { bank: { definition, envelope: (await seal()).body['envelope'] } },
    ...changes,
  });

describe('the operator’s side of a replica', () => {
  it('acknowledges a policy by its revision, and names the start of the replica', async () => {
    const { status, body } = await put();
    expect([status, body]).toEqual([
      200,
      {
        revision: digest('revision'),
        reentry: [],
        resealed: {},
        instance: expect.stringMatching(/^[0-9a-f]{32}$/),
        trace_id: expect.any(String),
      },
    ]);
  });

  it.each([
    ['another host', { definition: { ...definition, host: 'api.evil.org' } }],
    [
      'another route',
      { definition: { ...definition, routes: [...definition.routes, { method: 'POST', path: '/v1/x' }] } },
    ],
    ['another slot', { definition: { host: 'api.bank.org', routes: definition.routes, header: 'X-Other' } }],
    ['another Assistant’s UID', { assistant_uid: 'uid-2' }],
    ['another Capsule', { capsule_id: 'other' }],
    ['another key', { input: 'other' }],
  ])('does not use a value that was entered for %s', async (_, changes) => {
    const envelope = (await seal(changes)).body['envelope'];
    const { body } = await put({ stored_inputs: { bank: { definition, envelope } } });
    expect(body).toMatchObject({ reentry: ['bank'] });
  });

  it('does not use an envelope that somebody changed', async () => {
    const envelope = String((await seal()).body['envelope']);
    for (const at of [0, 4, 60, envelope.length - 30, envelope.length - 2]) {
      const changed = envelope.slice(0, at) + (envelope[at] === 'A' ? 'B' : 'A') + envelope.slice(at + 1);
      const { body } = await put({ stored_inputs: { bank: { definition, envelope: changed } } });
      expect([at, body['reentry']]).toEqual([at, ['bank']]);
    }
  });

  it.each([
    ['no token', ''],
    ['a wrong token', newToken('prv').reveal()],
    ['a token of another audience', newToken('egr').reveal()],
  ])('refuses %s', async (_, bearer) => {
    expect(await post('/v1/policies/put', { anything: 1 }, bearer)).toMatchObject({
      status: 403,
      body: { error: { code: 'forbidden' } },
    });
  });

  it('reports to an observer how often an Assistant called which host, and a refused host nowhere else', async () => {
    const principal = newToken('egr').reveal();
    await put({ principals: [createHash('sha256').update(principal).digest('hex')] });
    const before = log.length;
    const [answered] = await once(
      request({
        port: service.dataPort,
        method: 'CONNECT',
        path: 'tracking.example:443',
        headers: {
          'proxy-authorization': `Basic ${Buffer.from(`egr:${principal}`).toString('base64')}`,
        },
      }).end(),
      'connect',
    );
    expect(answered).toMatchObject({ statusCode: 403 });
    await expect
      .poll(() => post('/v1/calls', about, observer), { timeout: 240_000 })
      .toMatchObject({
        status: 200,
        body: { calls: [{ host: 'tracking.example', ending: 'host_denied', count: 1 }], forgotten: 0 },
      });
    expect(log.slice(before).join('')).not.toContain('tracking.example');
    expect(log.slice(before).join('')).toContain('host_denied');
  });

  it.each([
    ['the provisioner’s', token],
    ['no', ''],
    ['another observer’s', newToken('obs').reveal()],
  ])('does not report calls to a caller with %s token', async (_, bearer) => {
    expect((await post('/v1/calls', about, bearer)).status).toBe(403);
  });

  it('accepts no changes from an observer', async () => {
    expect((await post('/v1/policies/remove', about, observer)).status).toBe(403);
  });

  it('does not report calls without a configured observer', async () => {
    const { OBSERVER_TOKEN_FILE: _, ...rest } = environment;
    const other = await startService(readConfig(rest), createLogger({ service: 'egress', level: 'fatal' }));
    const { status } = await fetch(`http://127.0.0.1:${other.controlPort}/v1/calls`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${observer}` },
      body: JSON.stringify(about),
    });
    expect(status).toBe(403);
    expect(await other.stop()).toBe(true);
  });

  it.each([
    ['a host with a wildcard', { allowed_hosts: ['*.bank.org'] }],
    ['an address for a host', { allowed_hosts: ['10.0.0.1'] }],
    ['a host in capitals', { allowed_hosts: ['API.bank.org'] }],
    ['no principal', { principals: [] }],
    ['an unknown field', { extra: 1 }],
    ['a reserved id', { app_id: 'postgres' }],
    [
      'an unknown profile',
      { stored_inputs: { bank: { definition: { ...definition, hmac: 'md5' }, envelope: 'x' } } },
    ],
    [
      'a dot segment in a route',
      {
        stored_inputs: {
          bank: {
            definition: { ...definition, routes: [{ method: 'GET', path: '/a/../b' }] },
            envelope: 'x',
          },
        },
      },
    ],
    [
      'both slots',
      { stored_inputs: { bank: { definition: { ...definition, query: 'key' }, envelope: 'x' } } },
    ],
  ])('refuses a policy with %s', async (_, changes) => {
    expect(await put(changes)).toMatchObject({ status: 400, body: { error: { code: 'invalid_request' } } });
  });

  it.each(['', 'a b', 'a\nb', 'caf\u00e9', 'x'.repeat(4_097)])(
    'seals no value that cannot stand in a header: %j',
    async (value) => {
      expect((await seal({ value })).status).toBe(400);
    },
  );

  it('never shows a value, nor logs it', async () => {
    await put();
    expect(JSON.stringify(await seal())).not.toContain(VALUE);
    const metrics = await (await fetch(`http://127.0.0.1:${service.metricsPort}/metrics`)).text();
    expect(metrics).toContain('space_egress_policies 1');
    for (const text of [log.join(''), metrics]) expect(text).not.toContain(VALUE);
  });
});

describe('a replica’s process', () => {
  it('is healthy once it is up to date, and refuses strangers', async () => {
    const env = {
      ...process.env,
      CONTROL_PORT: String(service.controlPort),
      DATA_PORT: String(service.dataPort),
    };
    await expect(run(process.execPath, [join(import.meta.dirname, 'health.ts')], { env })).rejects.toThrow(
      'not refused',
    );
    const state = await post('/v1/replicas/state', {});
    expect(state).toMatchObject({ status: 200, body: { in_step: false } });
    // The request is for another start of the replica.
    expect(await post('/v1/replicas/in-step', { instance: 'a'.repeat(32) })).toMatchObject({
      status: 409,
      body: { error: { code: 'conflict' } },
    });
    expect(await post('/v1/replicas/state', {})).toMatchObject({ body: { in_step: false } });
    const { instance } = state.body;
    expect(await post('/v1/replicas/in-step', { instance })).toMatchObject({
      status: 200,
      body: { instance },
    });
    expect(await post('/v1/replicas/state', {})).toMatchObject({ body: { in_step: true, instance } });
    // It gives each answer some seconds.
    const healthy = () => run(process.execPath, [join(import.meta.dirname, 'health.ts')], { env });
    await eventually(healthy, { what: 'it is healthy' });
    await expect(
      run(process.execPath, [join(import.meta.dirname, 'health.ts')], {
        env: { ...env, DATA_PORT: String(service.metricsPort) },
      }),
    ).rejects.toThrow('not refused');
  });

  it.each([
    ['DENIED_CIDRS', '10.0.0.1/8'],
    ['DENIED_CIDRS', '::ffff:10.0.0.0/104'],
    ['FIXED_HOSTS', 'api.bank.org'],
    ['TLS_CERT_FILE', '/nowhere'],
    ['DATA_PORT', '70000'],
    ['CALLER_TUNNELS', '0'],
  ])('does not start with %s=%s', (name, value) => {
    expect(() => readConfig({ ...environment, [name]: value })).toThrow(name);
  });
});
