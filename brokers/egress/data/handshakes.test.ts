import { request } from 'node:http';
import { createServer, type TLSSocket } from 'node:tls';
import { portOf } from '@space/broker-kit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { makePki, type TestPki } from '../../../testing/certificates.ts';
import { makeGateway } from '../testing/gateway.ts';

const HOST = 'bank.org';
/** What a host answers once it has its handshake; without one it says nothing. */
const ANSWER = 'HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nanswer';

let pki: TestPki;
beforeAll(async () => {
  pki = await makePki();
});
afterAll(() => pki.remove());

it('a host that demands new handshakes on a connection of TLS 1.2 gets none', async () => {
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
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const gateway = await makeGateway({
    fixed: new Map([[HOST, { address: '127.0.0.1', port: portOf(server), ttl: 60, trusted: true }]]),
    authorities: pki.authority,
    limits: { answerMs: 3_000 },
  });
  try {
    await gateway.put(
      {},
      { bank: { host: HOST, routes: [{ method: 'GET', path: '/v1' }], header: 'X-Api-Key' } },
    );
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const headers = { host: 'assistant-egress', authorization: `Bearer ${gateway.principal}` };
      const where = { host: '127.0.0.1', port: gateway.port, path: '/i/bank/v1', headers, agent: false };
      request(where, (response) => response.resume().once('end', () => resolve(response.statusCode)))
        .on('error', reject)
        .end();
    });
    expect([status, handshakes]).toEqual([504, 0]);
  } finally {
    await gateway.close();
    server.close();
  }
});
