import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { tmpdir } from 'node:os';
import { BrokerError } from '@space/contracts/client';
import { Secret } from '@space/contracts/secret';
import { afterAll, afterEach, describe, expect, test } from 'vitest';
import { DRIVER_PATH } from '../../brokers/db/testing/broker.ts';
import { makeAuthority } from '../../testing/certificates.ts';
import { type DatabaseBroker, databaseBroker, newPrincipal } from './database.ts';
import { brokerFinding, principalFinding } from './findings.ts';

const driver = readFileSync(DRIVER_PATH);
const principal = new Secret(`spc_dbp_${'p'.repeat(43)}`);
const provisioner = new Secret(`spc_prv_${'v'.repeat(43)}`);
const trace_id = '0'.repeat(32);
const open: (() => void)[] = [];
afterEach(() => {
  for (const close of open.splice(0)) close();
});

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** The client of a broker that answers as the test says, and the requests that this broker received. */
async function brokerThat(answer: Answer, discovery: Answer = (_, response) => void response.end(driver)) {
  const told: string[] = [];
  const server = createServer((request, response) => {
    told.push(`${request.method} ${request.url} ${request.headers.authorization ?? 'no token'}`);
    if (request.url === '/v1/driver') discovery(request, response);
    else answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  open.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  const url = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`;
  const calls: string[] = [];
  const broker = databaseBroker({
    url,
    driver,
    provisionerToken: async () => provisioner,
    onCall: (operation, code) => calls.push(`${operation} ${code}`),
  });
  return { broker, told, calls };
}

const json =
  (status: number, body: unknown): Answer =>
  (_, response) => {
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
  };
const signal = () => AbortSignal.timeout(10_000);
const failure = async (promise: Promise<unknown>) => {
  const error = await promise.catch((thrown: unknown) => thrown);
  if (!(error instanceof BrokerError)) throw new Error(`no broker's error: ${error}`);
  return error;
};

test('each operation is sent with the credential of its authority', async () => {
  const answers: Record<string, unknown> = {
    '/v1/capsules/provision': { database_url: 'postgresql://a', created: true, trace_id },
    '/v1/capsules/apps/create': { database_url: 'postgresql://b', created: true, trace_id },
    '/v1/capsules/apps/drop': { dropped: 'x', trace_id },
    // A newer broker may say more.
    '/v1/capsules/drop': { dropped: ['x'], took_ms: 7, trace_id },
    '/v1/capsules/finalize': { finalized: true, trace_id },
  };
  const { broker, told, calls } = await brokerThat((request, response) =>
    json(200, answers[request.url ?? ''])(request, response),
  );
  expect((await broker.provision('home', principal, signal())).reveal()).toBe('postgresql://a');
  expect((await broker.createApp('home', 'ledger', principal, signal())).reveal()).toBe('postgresql://b');
  await broker.dropApp('home', 'ledger', principal, signal());
  await broker.drop('home', principal, signal());
  await broker.finalize('home', signal());
  const [prv, dbp] = [provisioner, principal].map((token) => `Bearer ${token.reveal()}`);
  expect(told).toEqual([
    'GET /v1/driver no token',
    `POST /v1/capsules/provision ${prv}`,
    `POST /v1/capsules/apps/create ${dbp}`,
    `POST /v1/capsules/apps/drop ${dbp}`,
    `POST /v1/capsules/drop ${dbp}`,
    `POST /v1/capsules/finalize ${prv}`,
  ]);
  expect(calls).toContain('capsule.app.drop 200');
});

describe('no token is sent to a broker whose discovery document', () => {
  test.each<[string, Answer, string]>([
    ['is another', (_, response) => void response.end(`${driver} `), 'not-ours'],
    ['is not there', json(404, {}), 'not-ours'],
    ['cannot be read now', json(503, {}), 'unreachable'],
    ['has no end', (_, response) => void response.end(Buffer.alloc(100_000)), 'unreachable'],
  ])('%s', async (_, discovery, expected) => {
    const { broker, told } = await brokerThat(json(200, {}), discovery);
    const error = await failure(broker.provision('home', principal, signal()));
    expect(error.failure).toBe(expected);
    expect(told).toEqual(['GET /v1/driver no token']);
  });
});

describe('an answer', () => {
  const refusal = (code: string) => ({ error: { code }, trace_id });
  test.each<[string, Answer, string, string]>([
    ['that refuses', json(403, refusal('forbidden')), 'refused', 'BrokerRefused'],
    ['that knows another principal', json(409, refusal('conflict')), 'refused', 'PrincipalLost'],
    ['that asks to come later', json(429, refusal('rate_limited')), 'unreachable', 'BrokerUnreachable'],
    ['that says it cannot now', json(503, refusal('unavailable')), 'unreachable', 'BrokerUnreachable'],
    [
      'of something in front of the broker',
      json(403, { message: 'blocked' }),
      'unreachable',
      'BrokerUnreachable',
    ],
    ['that is garbage', (_, response) => void response.end('<html>'), 'unreachable', 'BrokerUnreachable'],
    ['that lacks the URL', json(200, { created: true, trace_id }), 'unreachable', 'BrokerUnreachable'],
    ['that breaks off', (_, response) => void response.destroy(), 'unreachable', 'BrokerUnreachable'],
    [
      'that never ends',
      (_, response) => void response.end('x'.repeat(100_000)),
      'unreachable',
      'BrokerUnreachable',
    ],
  ])('%s', async (_, answer, expected, reason) => {
    const { broker } = await brokerThat(answer);
    const error = await failure(broker.createApp('home', 'ledger', principal, signal()));
    expect(error.failure).toBe(expected);
    expect(brokerFinding(error)?.reason).toBe(reason);
  });

  test('about a closed database does not mention the principal', async () => {
    const { broker } = await brokerThat(json(409, refusal('conflict')));
    const error = await failure(broker.createApp('home', 'ledger', principal, signal()));
    const names = { systemNamespace: 'home-system', servicesNamespace: 'home-services' };
    const finding = principalFinding(error, { names, capsule: 'home', secretName: 'home-principal' });
    expect(finding).toMatchObject({ reason: 'BrokerRefused', message: expect.stringContaining('open home') });
  });

  test('that does not come ends at the deadline of the caller', async () => {
    const { broker } = await brokerThat(() => {});
    const error = await failure(broker.createApp('home', 'ledger', principal, AbortSignal.timeout(100)));
    expect(error.failure).toBe('unreachable');
  });
});

test('an error contains no token, and a principal has 32 random bytes', async () => {
  const { broker } = await brokerThat(json(403, { error: { code: 'forbidden' }, trace_id }));
  const error = await failure(broker.drop('home', principal, signal()));
  expect(
    `${error.stack} ${JSON.stringify(error)} ${JSON.stringify({ principal })} ${principal}`,
  ).not.toContain('ppp');
  expect(newPrincipal().reveal()).toMatch(/^spc_dbp_[A-Za-z0-9_-]{43}$/);
  expect(newPrincipal().reveal()).not.toBe(newPrincipal().reveal());
});

describe('if a CA is configured', () => {
  const directory = mkdtempSync(`${tmpdir()}/space-trust-`);
  const [ours, foreign] = ['ours', 'foreign'].map((name) => makeAuthority(directory, name));
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  /** A broker under a certificate that one of them signed for these names, and a client that trusts the first. */
  async function under(signer = ours, names = ['DNS:localhost']) {
    if (!signer || !ours) throw new Error('no authority');
    const { cert, key } = signer.sign('served', names);
    const told: string[] = [];
    const server = createTlsServer(
      { cert: readFileSync(cert), key: readFileSync(key) },
      (request, response) => {
        told.push(request.url ?? '');
        if (request.url === '/v1/driver') response.end(driver);
        else json(200, { dropped: 'x', trace_id })(request, response);
      },
    );
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    open.push(() => {
      server.closeAllConnections();
      server.close();
    });
    const address = server.address();
    const port = typeof address === 'object' && address ? address.port : 0;
    let believed = readFileSync(ours.cert, 'utf8');
    const broker = databaseBroker({
      url: `https://localhost:${port}`,
      driver,
      readCa: async () => believed,
      provisionerToken: async () => provisioner,
    });
    const believe = (authority: typeof signer) => {
      believed = readFileSync(authority.cert, 'utf8');
    };
    return { broker, told, believe };
  }
  const drop = (broker: DatabaseBroker) => broker.dropApp('home', 'ledger', principal, signal());

  test('a broker with a certificate of this CA is called', async () => {
    const { broker, told } = await under();
    await drop(broker);
    expect(told).toEqual(['/v1/driver', '/v1/capsules/apps/drop']);
  });

  test.each([
    ['of a foreign authority', foreign, ['DNS:localhost']],
    ['for another name', ours, ['DNS:db-broker.other-services.svc']],
  ])('a broker with a certificate %s is sent nothing', async (_, signer, names) => {
    const { broker, told } = await under(signer, names);
    const error = await failure(drop(broker));
    expect([error.failure, brokerFinding(error)?.reason, told]).toEqual(['untrusted', 'BrokerNotOurs', []]);
  });

  test('another CA is trusted as soon as its file is replaced', async () => {
    const { broker, believe } = await under(foreign);
    expect((await failure(drop(broker))).failure).toBe('untrusted');
    if (foreign) believe(foreign);
    await drop(broker);
  });

  test('plain HTTP is never tried', () => {
    const options = { driver, readCa: async () => '', provisionerToken: async () => provisioner };
    expect(() => databaseBroker({ ...options, url: 'http://db-broker.test' })).toThrow(/https/);
  });
});
