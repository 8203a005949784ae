import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer, type Server, type TLSSocket } from 'node:tls';
import { portOf } from '@space/broker-kit';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { makePki, makeRsaCertificate, type TestPki } from '../../../testing/certificates.ts';
import { startTicketServer } from '../../../testing/ticket-server.ts';
import { makeGateway } from '../testing/gateway.ts';

const HOST = 'bank.org';
/** What a host answers once it has its handshake; without one it says nothing. */
const ANSWER = 'HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nanswer';

let pki: TestPki;
beforeAll(async () => {
  pki = await makePki();
});
afterAll(() => pki.remove());

/** What a caller gets of a host for a stored input. */
async function statusOf(server: Server, authorities: string): Promise<number | undefined> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return statusAt(portOf(server), authorities).finally(() => server.close());
}

async function statusAt(port: number, authorities: string): Promise<number | undefined> {
  const gateway = await makeGateway({
    fixed: new Map([[HOST, { address: '127.0.0.1', port, ttl: 60, trusted: true }]]),
    authorities,
  });
  try {
    await gateway.put(
      {},
      { bank: { host: HOST, routes: [{ method: 'GET', path: '/v1' }], header: 'X-Api-Key' } },
    );
    return await new Promise<number | undefined>((resolve, reject) => {
      const headers = { host: 'assistant-egress', authorization: `Bearer ${gateway.principal}` };
      const where = { host: '127.0.0.1', port: gateway.port, path: '/i/bank/v1', headers, agent: false };
      request(where, (response) => response.resume().once('end', () => resolve(response.statusCode)))
        .on('error', reject)
        .end();
    });
  } finally {
    await gateway.close();
  }
}

it('a host that demands a new handshake on a connection of TLS 1.2 gets none, and loses the connection', async () => {
  const { cert, key } = await pki.issue(HOST);
  let handshakes = 0;
  const demand = (socket: TLSSocket) =>
    socket.renegotiate({}, (error) => {
      if (error !== null) return;
      handshakes += 1;
      socket.end(ANSWER);
    });
  const server = createServer({ cert, key, maxVersion: 'TLSv1.2' }, (socket) => {
    socket.on('error', () => undefined).once('data', () => demand(socket));
  });
  expect([await statusOf(server, pki.authority), handshakes]).toEqual([502, 0]);
});

describe('a host of TLS 1.2', () => {
  // There are no suites of the costly kind for other keys.
  const rsa = makeRsaCertificate(HOST);

  it.each([
    ['ECDHE-RSA-AES128-GCM-SHA256', 200, 1],
    ['DHE-RSA-AES128-GCM-SHA256', 502, 0],
    ['DHE-RSA-CHACHA20-POLY1305', 502, 0],
    ['DHE-RSA-AES256-SHA', 502, 0],
  ])('that knows only %s is answered %s', async (ciphers, status, handshakes) => {
    let made = 0;
    const server = createServer({ ...rsa, ciphers, dhparam: 'auto', maxVersion: 'TLSv1.2' }, (socket) => {
      made += 1;
      socket.on('error', () => undefined).once('data', () => socket.end(ANSWER));
    });
    expect([await statusOf(server, rsa.cert), made]).toEqual([status, handshakes]);
  });
});

it.each([
  [4, 200],
  [100, 502],
])('a host of TLS 1.3 that sends %i tickets of its session is answered %i', async (tickets, status) => {
  const directory = mkdtempSync(join(tmpdir(), 'space-tickets-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const pair = { cert: join(directory, 'cert'), key: join(directory, 'key') };
  const { cert, key } = await pki.issue(HOST);
  writeFileSync(pair.cert, cert);
  writeFileSync(pair.key, key);
  const server = await startTicketServer(pair, tickets);
  onTestFinished(() => server.end());
  expect(await statusAt(server.port, pki.authority)).toBe(status);
});
