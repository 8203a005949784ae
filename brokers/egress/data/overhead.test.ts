import { request } from 'node:http';
import { createServer, type TLSSocket } from 'node:tls';
import { portOf } from '@space/broker-kit';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { makePki, type TestPki } from '../../../testing/certificates.ts';
import { makeGateway, type TestGateway } from '../testing/gateway.ts';

/** Answers of which most is of no body, so that it is parsed at once and waits for no turn of its Capsule. */

const HOST = 'bank.org';
const MIB = 1024 * 1024;
const HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n';

let pki: TestPki;
let gateway: TestGateway;
let answer: (socket: TLSSocket) => void;
const closers: (() => void)[] = [];
beforeAll(async () => {
  pki = await makePki();
  const server = createServer(await pki.issue(HOST), (socket) => {
    socket.on('error', () => undefined).once('data', () => answer(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => server.close());
  gateway = await makeGateway({
    fixed: new Map([[HOST, { address: '127.0.0.1', port: portOf(server), ttl: 60, trusted: true }]]),
    authorities: pki.authority,
  });
  await gateway.put(
    {},
    { bank: { host: HOST, routes: [{ method: 'GET', path: '/v1' }], header: 'X-Api-Key' } },
  );
});
afterEach(() => {
  answer = (socket) => socket.destroy();
});
afterAll(async () => {
  await gateway?.close();
  for (const close of closers) close();
  await pki.remove();
});

/** The body that a caller gets, or that it was cut short. */
function body(): Promise<string> {
  return new Promise((resolve) => {
    const headers = { host: 'assistant-egress', authorization: `Bearer ${gateway.principal}` };
    const where = { host: '127.0.0.1', port: gateway.port, path: '/i/bank/v1', headers, agent: false };
    const asked = request(where, (response) => {
      let text = '';
      response.setEncoding('latin1').on('data', (part: string) => {
        text += part;
      });
      response.on('error', () => resolve('cut short')).once('end', () => resolve(text));
    });
    asked.on('error', () => resolve('cut short')).end();
  });
}

it.each([
  ['one extension of a chunk', '1;'],
  ['bytes with extensions', `${`1;${'a'.repeat(16 * 1024)}\r\nx\r\n`.repeat(100)}1;`],
])('an answer with %s, which does not end, loses its connection', async (_, begun) => {
  const extension = Buffer.alloc(64 * 1024, 'a');
  const { promise: sent, resolve } = Promise.withResolvers<number>();
  answer = (socket) => {
    const bytes = () => socket.bytesWritten - socket.writableLength;
    const more = () => {
      // It goes on for as long as it likes.
      if (bytes() > 256 * MIB) socket.destroy();
      while (!socket.destroyed && socket.write(extension));
    };
    socket.on('drain', more).once('close', () => resolve(bytes()));
    socket.write(HEAD + begun);
    more();
  };
  expect(await body()).toBe('cut short');
  expect(await sent).toBeLessThan(64 * MIB);
});

it('an answer in chunks of a byte, with long lengths, arrives', async () => {
  answer = (socket) => void socket.end(`${HEAD}${'00000001\r\nx\r\n'.repeat(20_000)}0\r\n\r\n`);
  expect(await body()).toBe('x'.repeat(20_000));
});
