import type { ServerResponse } from 'node:http';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { type ScriptedServer, startScripted } from '../testing/scripted.ts';
import type { S3Client } from './types.ts';

let scripted: ScriptedServer;
let s3: S3Client;
let answer: (response: ServerResponse) => void;
let sent = 0;
let open = 0;
beforeAll(async () => {
  scripted = await startScripted((_, response) => answer(response), { connections: 4 });
  scripted.server.on('connection', (socket) => {
    open += 1;
    socket.once('close', () => {
      open -= 1;
    });
  });
  ({ s3 } = scripted);
});
afterAll(() => scripted?.close());

/** As fast as it is read, until the connection ends. */
function withoutEnd(response: ServerResponse): void {
  response.writeHead(403, { 'content-type': 'application/xml' });
  response.write('<Error><Code>AccessDenied</Code><Message>');
  const more = () => {
    while (!response.destroyed) {
      sent += 64 * 1024;
      if (!response.write(Buffer.alloc(64 * 1024, 'x'))) return void response.once('drain', more);
    }
  };
  more();
}

it('an error without end is read to a limit, then its connection ends, whatever was asked', async () => {
  answer = withoutEnd;
  const options = { signal: AbortSignal.timeout(60_000) };
  const asked: readonly (() => Promise<unknown>)[] = [
    () => s3.put('key', Buffer.from('text'), options),
    () => s3.read('key', 100, options),
    () => s3.delete('key', options),
    () => s3.copy('key', 'other', options),
    () => s3.list({ prefix: '', limit: 1 }, options),
  ];
  for (const ask of asked) await expect(ask()).rejects.toMatchObject({ kind: 'answered', status: 403 });
  await eventually(() => open === 0, { what: 'the connections to end' });
  // What both ends of a connection hold, and not what is sent in a second.
  expect(sent).toBeLessThan(64 * 1024 * 1024);
});

it('an error whose end is within the limit is read to its end, and its connection is used again', async () => {
  const long = `<Error><Code>AccessDenied</Code><Message>${'x'.repeat(3_000)}</Message></Error>`;
  answer = (response) => void response.writeHead(403, { 'content-length': long.length }).end(long);
  await expect(s3.read('key', 100)).rejects.toMatchObject({ status: 403, code: 'AccessDenied' });
  await eventually(() => open === 1, { what: 'the connection to stay' });
});
