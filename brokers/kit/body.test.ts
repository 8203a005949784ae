import { createServer, type IncomingMessage, request } from 'node:http';
import { afterEach, expect, it } from 'vitest';
import { readJsonObject } from './body.ts';
import { portOf } from './metrics.ts';

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** What a server reads of a body in such chunks. */
async function sent(chunks: readonly string[], limit: number): Promise<unknown> {
  const read = Promise.withResolvers<unknown>();
  const server = createServer((incoming: IncomingMessage, response) => {
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
