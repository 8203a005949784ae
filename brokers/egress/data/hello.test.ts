import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { PassThrough } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { connect } from 'node:tls';
import { describe, expect, it, vi } from 'vitest';
import { LONGEST_HELLO } from '../core/client-hello.ts';
import { readHello } from './hello.ts';

/** Longer than the test: what is settled is settled by what was read. */
const NEVER_MS = 60_000;
const HOST = 'rates.bank.org';

/** The first bytes of a real client that asks for the host. */
async function helloFor(servername: string): Promise<Buffer> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const client = connect({ port, host: '127.0.0.1', servername }).on('error', () => {});
  const [socket] = await once(server, 'connection');
  const [bytes] = await once(socket, 'data');
  client.destroy();
  socket.destroy();
  server.close();
  return bytes;
}

/** What has been settled once these bytes were read; `waits` where it is not. */
async function told(...chunks: readonly (Buffer | 'end')[]): Promise<unknown> {
  const client = new PassThrough();
  let found: unknown = 'waits';
  const reading = readHello(client, Buffer.alloc(0), HOST, NEVER_MS).then((result) => {
    found = 'fault' in result ? result.fault : result.bytes.toString('hex');
  });
  for (const chunk of chunks) {
    if (chunk === 'end') client.end();
    else client.write(chunk);
    await turn();
    await turn();
  }
  const seen = found;
  // It lets go of its timer.
  client.destroy();
  await reading;
  return seen;
}

describe('the first bytes of a tunnel', () => {
  it('are forwarded unchanged if they ask for the host, in any number of parts', async () => {
    const hello = await helloFor(HOST);
    expect(await told(hello)).toBe(hello.toString('hex'));
    expect(await told(hello.subarray(0, 7), hello.subarray(7))).toBe(hello.toString('hex'));
    expect(await told(hello.subarray(0, -1))).toBe('waits');
  });

  it('are refused at once if they ask for another host, are not TLS, or end too early', async () => {
    const hello = await helloFor('other.bank.org');
    expect(await told(hello)).toBe('sni_mismatch');
    expect(await told(Buffer.from('GET / HTTP/1.1\r\n\r\n'))).toBe('not_tls');
    expect(await told(hello.subarray(0, 20), 'end')).toBe('not_tls');
  });

  it('are waited for up to the longest ClientHello, and refused at their head if they announce more', async () => {
    const head = (length: number) => {
      const bytes = Buffer.from([22, 3, 1, 0, 0, 1, 0, 0, 0]);
      bytes.writeUInt16BE(length, 3);
      bytes.writeUIntBE(length - 4, 6, 3);
      return bytes;
    };
    const longest = Buffer.concat([head(LONGEST_HELLO), Buffer.alloc(LONGEST_HELLO - 4)]);
    expect(await told(longest.subarray(0, -1))).toBe('waits');
    // Whole, it is judged: it holds no more than zeros.
    expect(await told(longest)).not.toBe('waits');
    expect(await told(head(LONGEST_HELLO + 1))).toBe('hello_too_large');
  });

  it('may have arrived before, and are freed once they are read', async () => {
    const hello = await helloFor(HOST);
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      const client = new PassThrough();
      const listening = () => ['data', 'end', 'close'].map((event) => client.listenerCount(event));
      const before = listening();
      expect(await readHello(client, hello, HOST, NEVER_MS)).toEqual({ bytes: hello });
      expect([listening(), client.isPaused(), vi.getTimerCount()]).toEqual([before, true, 0]);
      // Not all of them, and no more in time.
      const late = readHello(client, hello.subarray(0, -1), HOST, NEVER_MS);
      expect(client.isPaused()).toBe(true);
      vi.advanceTimersByTime(NEVER_MS);
      expect(await late).toEqual({ fault: 'hello_timeout' });
      expect(listening()).toEqual(before);
    } finally {
      vi.useRealTimers();
    }
  });
});
