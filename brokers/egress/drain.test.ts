import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type IncomingMessage, request, type ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { connect as connectTls } from 'node:tls';
import { createLogger, newToken } from '@space/broker-kit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makePki, type TestPki } from '../../testing/certificates.ts';
import { readConfig } from './config.ts';
import { startService } from './service.ts';
import { basic, digest } from './testing/gateway.ts';
import { startUpstream, type TestUpstream } from './testing/upstream.ts';

const HOST = 'api.bank.org';
const NEVER = 10 * 60;
const token = newToken('prv').reveal();
const principal = newToken('egr').reveal();
let directory: string;
let pki: TestPki;
let upstream: TestUpstream;
let environment: Record<string, string>;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'space-egress-drain-'));
  const file = (name: string, text: string) => {
    writeFileSync(join(directory, name), text, { mode: 0o600 });
    return join(directory, name);
  };
  pki = await makePki();
  upstream = await startUpstream(await pki.issue(HOST));
  const key = Buffer.from(digest('key'), 'hex').toString('base64url');
  environment = {
    SPACE_NAME: 'test',
    LISTEN_HOST: '127.0.0.1',
    DATA_PORT: '0',
    CONTROL_PORT: '0',
    METRICS_PORT: '0',
    PROVISIONER_TOKEN_FILE: file('token', token),
    CUSTODY_KEY_FILE: file('ring', JSON.stringify({ primary: 'k1', keys: { k1: key } })),
    UPSTREAM_CA_FILE: file('ca', pki.authority),
    FIXED_HOSTS: `${HOST}=127.0.0.1:${upstream.port}`,
  };
});
afterAll(async () => {
  await upstream.close();
  await pki.remove();
  rmSync(directory, { recursive: true, force: true });
});

async function post(port: number, path: string, body: object): Promise<Record<string, unknown>> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
    body: JSON.stringify(body),
  });
  expect(response.status).toBe(200);
  return (await response.json()) as Record<string, unknown>;
}

async function permit(controlPort: number): Promise<void> {
  const about = { capsule_id: 'home', app_id: 'ledger', assistant_uid: 'uid-1' };
  const definition = { host: HOST, routes: [{ method: 'GET', path: '/v1' }], header: 'X-Api-Key' };
  const { envelope } = await post(controlPort, '/v1/inputs/seal', {
    ...about,
    input: 'bank',
    definition,
    value: 'sk_live_4eC39HqLyjWDarjtT1zdp7dc',
  });
  await post(controlPort, '/v1/policies/put', {
    ...about,
    generation: 1,
    revision: digest('revision'),
    principals: [digest(principal)],
    addresses: ['127.0.0.1'],
    allowed_hosts: [HOST],
    stored_inputs: { bank: { definition, envelope } },
  });
}

/** A tunnel in which TLS has been spoken. */
async function tunnel(port: number): Promise<Socket> {
  const raw = connect(port, '127.0.0.1').on('error', () => undefined);
  raw.write(`CONNECT ${HOST}:443 HTTP/1.1\r\nproxy-authorization: ${basic(principal)}\r\n\r\n`);
  await once(raw, 'data');
  const secure = connectTls({ socket: raw, servername: HOST, ca: pki.authority }).on(
    'error',
    () => undefined,
  );
  await once(secure, 'secureConnect');
  return raw;
}

/** A request whose answer its upstream has not begun; `answer` lets it. */
async function pending(port: number) {
  const { promise: arrived, resolve } = Promise.withResolvers<ServerResponse>();
  upstream.answer = (_, response) => resolve(response);
  const headers = { host: 'assistant-egress', authorization: `Bearer ${principal}` };
  const outgoing = request({ host: '127.0.0.1', port, path: '/i/bank/v1', headers, agent: false }).end();
  const answered = once(outgoing, 'response') as Promise<[IncomingMessage]>;
  const held = await arrived;
  return {
    answer: () => held.end('late'),
    status: answered.then(([response]) => response.resume().statusCode),
  };
}

const refused = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(false);
    });
    socket.on('error', () => resolve(true));
  });

async function start(drainSeconds: number) {
  const log = createLogger({ service: 'egress', level: 'silent' });
  const service = await startService(
    readConfig({ ...environment, DRAIN_SECONDS: String(drainSeconds) }),
    log,
  );
  await permit(service.controlPort);
  return service;
}

describe('a replica that is told to end', () => {
  it('takes nothing new, and lets requests and tunnels end by themselves', async () => {
    const service = await start(NEVER);
    const [open, slow] = [await tunnel(service.dataPort), await pending(service.dataPort)];
    const stopped = service.stop();
    while (!(await refused(service.dataPort))) await new Promise((resolve) => setTimeout(resolve, 5));
    slow.answer();
    expect(await slow.status).toBe(200);
    expect(open.destroyed).toBe(false);
    open.destroy();
    expect(await stopped).toBe(true);
  });

  it('cuts what has not ended in its time, and that is no failure', async () => {
    const service = await start(1);
    const [open, slow] = [await tunnel(service.dataPort), await pending(service.dataPort)];
    const cut = [once(open, 'close'), expect(slow.status).rejects.toThrow()];
    expect(await service.stop()).toBe(true);
    await Promise.all(cut);
  });

  it('ends its process at SIGTERM, although a caller keeps its connection', async () => {
    const child = spawn(process.execPath, [join(import.meta.dirname, 'main.ts')], {
      env: { ...process.env, ...environment },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = once(child, 'exit');
    let ports: { readonly dataPort: number; readonly controlPort: number } | undefined;
    for await (const line of createInterface({ input: child.stdout })) {
      const told = JSON.parse(line);
      if (told.msg !== 'listening') continue;
      ports = told;
      break;
    }
    child.stdout.resume();
    if (ports === undefined) throw new Error('it did not start');
    await permit(ports.controlPort);
    const idle = connect(ports.dataPort, '127.0.0.1').on('error', () => undefined);
    idle.write('GET / HTTP/1.1\r\nhost: assistant-egress\r\n\r\n');
    await once(idle, 'data');
    child.kill('SIGTERM');
    expect(await ended).toEqual([0, null]);
  });
});
