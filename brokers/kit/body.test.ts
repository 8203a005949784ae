import { createServer, type IncomingMessage, request } from 'node:http';
import { afterEach, expect, it, vi } from 'vitest';
import { readJsonObject } from './body.ts';
import { GrowingBytes } from './growing-bytes.ts';
import { portOf } from './metrics.ts';

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** What a server reads of a body in such chunks. */
async function sent(
  chunks: readonly string[],
  limit: number,
  onPiece: (piece: Buffer) => void = () => undefined,
): Promise<unknown> {
  const read = Promise.withResolvers<unknown>();
  const server = createServer((incoming: IncomingMessage, response) => {
    incoming.on('data', onPiece);
    readJsonObject(incoming, limit).then(read.resolve, read.reject);
    void read.promise.catch(() => undefined).then(() => response.end());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const sending = request({ host: '127.0.0.1', port: portOf(server), method: 'POST', agent: false });
  sending.on('error', () => undefined).setHeader('transfer-encoding', 'chunked');
  for (const chunk of chunks) sending.write(chunk);
  sending.end();
  return read.promise;
}

it('a body in chunks of one byte is read like one in one piece', async () => {
  const body = JSON.stringify({ text: 'abc'.repeat(5_000) });
  expect(await sent([...body], 100_000)).toEqual(JSON.parse(body));
  expect(await sent([body], 100_000)).toEqual(JSON.parse(body));
});

it('a body over the limit is refused at the first byte beyond it', async () => {
  const body = JSON.stringify({ text: 'abc'.repeat(500) });
  await expect(sent([...body], body.length - 1)).rejects.toMatchObject({ code: 'too_large' });
  expect(await sent([...body], body.length)).toEqual(JSON.parse(body));
});

it('what a large body took is freed at once, without the collector', async () => {
  const body = JSON.stringify({ text: 'abc'.repeat(340_000) });
  const pieces: Buffer[] = [];
  const bytes = vi.spyOn(GrowingBytes.prototype, 'bytes');
  expect(await sent([body], 2 ** 20, (piece) => pieces.push(piece))).toEqual(JSON.parse(body));
  await expect(sent([body], body.length - 1, (piece) => pieces.push(piece))).rejects.toThrow();
  const whole = bytes.mock.results.map(({ value }) => (value as Buffer).length);
  bytes.mockRestore();
  expect(whole).toEqual([0]);
  const kept = pieces.reduce((sum, { length }) => sum + length, 0);
  // Pieces that have no memory of their own are left to the collector, as is the one that was too much.
  expect(kept).toBeLessThan(128 * 1024);
});
