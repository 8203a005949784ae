import { Resolver } from 'node:dns/promises';
import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { basic } from './testing/gateway.ts';
import { openReplicas, type Replicas } from './testing/replica.ts';

/** What an administrator sets is what a replica does. */

let replicas: Replicas;
let service: Awaited<ReturnType<Replicas['start']>> | undefined;
beforeAll(async () => {
  replicas = await openReplicas();
});
afterEach(async () => {
  vi.restoreAllMocks();
  await service?.stop();
});
afterAll(() => replicas.close());

/** All that comes until the connection ends. */
async function told(bytes: string): Promise<string> {
  const socket = connect(service!.dataPort, '127.0.0.1').on('error', () => undefined);
  let text = '';
  socket.setEncoding('latin1').on('data', (chunk) => {
    text += chunk;
  });
  socket.write(bytes);
  await once(socket, 'close');
  return text;
}

const opening = (host: string) =>
  `CONNECT ${host}:443 HTTP/1.1\r\nproxy-authorization: ${basic(replicas.principal)}\r\n\r\n`;
const asking = (more = '') =>
  `GET /i/bank/v1 HTTP/1.1\r\nhost: assistant-egress\r\nauthorization: Bearer ${replicas.principal}\r\nconnection: close\r\n${more}\r\n`;

describe('addresses from DNS are refused', () => {
  const OTHER = 'other.bank.org';

  it.each([
    ['where the network’s own NAT64 leads inside', { NAT64_PREFIXES: '2a00:64::/96' }, '2a00:64::10.1.2.3'],
    ['where they are in blocks that are denied', { DENIED_CIDRS: '2a00:65::/64' }, '2a00:65::7'],
  ])('%s', async (_, settings, address) => {
    vi.spyOn(Resolver.prototype, 'resolve4').mockResolvedValue([]);
    vi.spyOn(Resolver.prototype, 'resolve6').mockResolvedValue([{ address, ttl: 60 }] as never);
    service = await replicas.start(settings);
    await replicas.permit(service.controlPort, { generation: 2, allowed_hosts: [OTHER] });
    expect(await told(opening(OTHER))).toMatch(/^platform-egress-error: address_denied\r$/m);
  });
});

describe('a replica waits no longer than configured', () => {
  it('with a host that does not begin to answer', async () => {
    replicas.upstream.answer = () => undefined;
    service = await replicas.start({ ANSWER_SECONDS: '1' });
    expect(await told(asking())).toMatch(/^HTTP\/1\.1 504 /);
  });

  it('with a body that stalls', async () => {
    replicas.upstream.answer = (_, response) =>
      void response.writeHead(200, { 'content-length': 100 }).write('half of it\n');
    service = await replicas.start({ BODY_IDLE_SECONDS: '1' });
    expect(await told(asking())).toMatch(/half of it\n$/);
  });

  it('with a silent tunnel', async () => {
    service = await replicas.start({ TUNNEL_IDLE_SECONDS: '1' });
    await once(await replicas.tunnel(service.dataPort), 'close');
  });
});

describe('a request with a stored input', () => {
  it('is served until its host has returned the value the configured number of times', async () => {
    replicas.upstream.answer = (incoming, response) => response.end(incoming.headers['x-api-key']);
    service = await replicas.start({ INPUT_REFLECTIONS: '2' });
    for (const _ of [1, 2]) expect(await told(asking())).toMatch(/^HTTP\/1\.1 200 /);
    expect(await told(asking())).toMatch(/^platform-egress-error: input_suspended\r$/m);
  });

  it('may have the configured headers in addition to those that the gateway knows', async () => {
    replicas.upstream.answer = (_, response) => response.end('ok');
    service = await replicas.start({ REQUEST_HEADERS: 'X-Mine' });
    expect(await told(asking('x-mine: 7\r\nx-other: 7\r\n'))).toMatch(/^HTTP\/1\.1 200 /);
    const headers = replicas.upstream.seen.at(-1)?.rawHeaders.map((one) => one.toLowerCase());
    expect([headers?.includes('x-mine'), headers?.includes('x-other')]).toEqual([true, false]);
  });
});
