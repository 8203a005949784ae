import { connect as connectTcp, createServer, type Server } from 'node:net';
import { connect } from 'node:tls';
import { portOf } from '@space/broker-kit';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { alertFor, readClientHello } from './client-hello.ts';

/** The first bytes that Node's own TLS client sends. */
async function realHello(servername: string, maxVersion: 'TLSv1.2' | 'TLSv1.3' = 'TLSv1.3'): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    taken = resolve;
    const socket = connectTcp(port, '127.0.0.1');
    connect({ socket, maxVersion, ...(servername === '' ? {} : { servername }) }).on(
      'error',
      () => undefined,
    );
    socket.on('error', reject);
  });
}
let server: Server;
let port: number;
let taken: (bytes: Buffer) => void = () => undefined;
beforeAll(async () => {
  server = createServer((socket) => {
    let bytes = Buffer.alloc(0);
    socket
      .on('error', () => undefined)
      .on('data', (chunk: Buffer) => {
        bytes = Buffer.concat([bytes, chunk]);
        if (bytes.length >= 5 && bytes.length >= 5 + bytes.readUInt16BE(3)) {
          taken(bytes);
          socket.destroy();
        }
      });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  port = portOf(server);
});
afterAll(() => server.close());

/** A ClientHello with these extensions and nothing else to it. */
function hello(extensions: readonly (readonly [number, Buffer])[], behind = Buffer.alloc(0)): Buffer {
  return record(message(1, Buffer.concat([HEAD, listOf(extensions), behind])));
}
const uint = (value: number, size: number) => {
  const bytes = Buffer.alloc(size);
  bytes.writeUIntBE(value, 0, size);
  return bytes;
};
/** All that comes before the extensions. */
const HEAD = Buffer.concat([
  ...[uint(0x0303, 2), Buffer.alloc(32), uint(0, 1), uint(2, 2), uint(0x1301, 2), uint(1, 1), uint(0, 1)],
]);
function listOf(extensions: readonly (readonly [number, Buffer])[]): Buffer {
  const list = Buffer.concat(
    extensions.map(([type, data]) => Buffer.concat([uint(type, 2), uint(data.length, 2), data])),
  );
  return Buffer.concat([uint(list.length, 2), list]);
}
const message = (type: number, body: Buffer) => Buffer.concat([uint(type, 1), uint(body.length, 3), body]);
const record = (message: Buffer) =>
  Buffer.concat([Buffer.from([22, 3, 1]), uint(message.length, 2), message]);
const sni = (...names: string[]): readonly [number, Buffer] => {
  const list = Buffer.concat(
    names.map((name) => Buffer.concat([uint(0, 1), uint(name.length, 2), Buffer.from(name)])),
  );
  return [0, Buffer.concat([uint(list.length, 2), list])];
};

/** One that says to be so much longer than its record is. */
function sized(more: number): Buffer {
  const bytes = hello([sni('a.b')]);
  bytes.writeUIntBE(bytes.readUIntBE(6, 3) + more, 6, 3);
  return bytes;
}

it.each([
  ['sni_mismatch', 112],
  ['ech_denied', 47],
  ['hello_malformed', 50],
  ['not_tls', 10],
  ['hello_timeout', 10],
] as const)('a client whose tunnel ends with %s is told by the alert %i', (fault, description) => {
  expect([...alertFor(fault)]).toEqual([21, 3, 1, 0, 2, 2, description]);
});

describe('a ClientHello', () => {
  it.each(['TLSv1.2', 'TLSv1.3'] as const)(
    'of a real client names its host, wherever TCP splits it (%s)',
    async (version) => {
      const bytes = await realHello('api.bank.org', version);
      for (let at = 0; at < bytes.length; at++) expect(readClientHello(bytes.subarray(0, at))).toBe('more');
      expect(readClientHello(bytes)).toEqual({ sni: 'api.bank.org' });
    },
  );

  it('without a name is a mismatch', async () => {
    expect(readClientHello(await realHello(''))).toEqual({ fault: 'sni_mismatch' });
  });

  it.each([
    ['plain HTTP', Buffer.from('GET / HTTP/1.1\r\n'), 'not_tls'],
    ['SSH', Buffer.from('SSH-2.0-x\r\n'), 'not_tls'],
    ['SSLv2', Buffer.from([0x80, 0x2e, 1, 0, 2]), 'not_tls'],
    ['an alert', Buffer.from([21, 3, 1, 0, 2, 2, 0]), 'not_tls'],
    ['a record that is too long', Buffer.from([22, 3, 1, 0x40, 0x01]), 'hello_too_large'],
    [
      'a message cut by a record',
      Buffer.concat([Buffer.from([22, 3, 1, 0, 10, 1, 0, 1, 0]), Buffer.alloc(6)]),
      'hello_fragmented',
    ],
    ['a record of three bytes', Buffer.from([22, 3, 1, 0, 3, 1, 0, 0]), 'hello_fragmented'],
    ['another handshake message', Buffer.from([22, 3, 1, 0, 4, 2, 0, 0, 0]), 'hello_malformed'],
    [
      'a second message in the record',
      record(Buffer.concat([hello([sni('a.b')]).subarray(5), Buffer.from([1, 0, 0, 0])])),
      'hello_malformed',
    ],
    ['two names', hello([sni('a.b', 'c.d')]), 'hello_malformed'],
    ['two name extensions', hello([sni('a.b'), sni('a.b')]), 'hello_malformed'],
    ['Encrypted ClientHello', hello([sni('a.b'), [0xfe0d, Buffer.alloc(8)]]), 'ech_denied'],
    ['Encrypted ClientHello before the name', hello([[0xfe0d, Buffer.alloc(8)], sni('a.b')]), 'ech_denied'],
    ['encrypted SNI', hello([[0xffce, Buffer.alloc(8)]]), 'ech_denied'],
    ['a record of SSL 2', Buffer.from([22, 2, 1, 0, 10]), 'not_tls'],
    [
      'what would be one, in another handshake message',
      record(message(2, Buffer.concat([HEAD, listOf([sni('a.b')])]))),
      'hello_malformed',
    ],
    ['a message that says to be shorter', sized(-1), 'hello_malformed'],
    ['a message that says to be a little longer', sized(1), 'hello_fragmented'],
    ['no list of extensions', record(message(1, HEAD)), 'sni_mismatch'],
    ['something behind its extensions', hello([sni('a.b')], Buffer.alloc(1)), 'hello_malformed'],
    [
      'something behind the list of names',
      hello([[0, Buffer.concat([sni('a.b')[1], Buffer.alloc(1)])]]),
      'hello_malformed',
    ],
    ['a name of another kind', hello([[0, Buffer.from([0, 4, 1, 0, 1, 0x61])]]), 'hello_malformed'],
    ['a name that says to be longer', hello([[0, Buffer.from([0, 4, 0, 0, 9, 0x61])]]), 'hello_malformed'],
    [
      'a list of names that says to be longer',
      hello([[0, Buffer.from([0, 9, 0, 0, 1, 0x61])]]),
      'hello_malformed',
    ],
    ['an extension that says to be longer', hello([[0, Buffer.from([0])]]), 'hello_malformed'],
    ['no extensions', hello([]), 'sni_mismatch'],
  ])('is refused from %s', (_, bytes, fault) => {
    expect(readClientHello(bytes)).toEqual({ fault });
  });

  it.each([0xfe08, 0xfe09, 0xfe0a, 0xfe0b, 0xfe0c, 0xfe0d, 0xffce])(
    'that hides a name in the extension %i is denied',
    (type) => {
      expect(readClientHello(hello([sni('a.b'), [type, Buffer.alloc(8)]]))).toEqual({ fault: 'ech_denied' });
      expect(readClientHello(hello([sni('a.b'), [type - 1 - 0x100, Buffer.alloc(8)]]))).toEqual({
        sni: 'a.b',
      });
    },
  );

  it('is parsed safely with any bytes and any damage', async () => {
    const real = await realHello('api.bank.org');
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 300 }),
        fc.nat(real.length - 1),
        fc.nat(255),
        (noise, at, byte) => {
          const damaged = Buffer.from(real);
          damaged[at] = byte;
          for (const bytes of [Buffer.from(noise), record(Buffer.from(noise)), damaged]) {
            const result = readClientHello(bytes);
            expect(result === 'more' || 'fault' in result || typeof result.sni === 'string').toBe(true);
          }
        },
      ),
      { numRuns: 2_000 },
    );
  });
});
