import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { portOf } from '@space/broker-kit';
import type { Pool } from 'undici';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { encodeChunked } from './aws-chunked-encoder.ts';
import { createPool } from './managed.ts';
import { giveAway } from './pieces.ts';

const MIB = 1024 * 1024;

let server: Server;
let pool: Pool;
let received: Buffer;

beforeEach(async () => {
  server = createServer(async (request, response) => {
    received = await buffer(request);
    response.end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const origin = `http://127.0.0.1:${portOf(server)}`;
  pool = createPool({ origin, bucket: 'bucket', addressing: 'path' }, { connections: 1 });
});

afterEach(async () => {
  await pool.destroy();
  server.closeAllConnections();
  server.close();
});

/** As the parser of HTTP makes them: each with memory of its own, and no boundary where a chunk has one. */
function pieces(): Buffer[] {
  return Array.from({ length: 100 }, (_, i) => Buffer.alloc(65_339, i));
}

async function put(body: Readable, length: number): Promise<void> {
  const answer = await pool.request({
    method: 'PUT',
    path: '/',
    headers: { 'content-length': String(length) },
    body,
  });
  await answer.body.dump();
  expect(answer.statusCode).toBe(200);
}

/** The data of a coded body; every chunk of it is 1 MiB but the last. */
function decoded(body: Buffer, length: number): Buffer {
  const data: Buffer[] = [];
  let at = 0;
  for (let left = length; left > 0; left -= MIB) {
    at = body.indexOf('\r\n', at) + 2;
    data.push(body.subarray(at, at + Math.min(left, MIB)));
    at += Math.min(left, MIB) + 2;
  }
  return Buffer.concat(data);
}

const kept = (sent: readonly Buffer[]) => sent.reduce((sum, { length }) => sum + length, 0);

test('a buffer that was handed over is freed once it is sent, without the collector, and arrives completely', async () => {
  const sent = pieces();
  const whole = Buffer.concat(sent);
  const { stream, length } = encodeChunked(
    Readable.from(sent.map(giveAway), { objectMode: false }),
    whole.length,
  );
  await put(stream, length);
  expect(decoded(received, whole.length).equals(whole)).toBe(true);
  expect(kept(sent)).toBe(0);
});

test('a buffer that was not handed over stays', async () => {
  const sent = pieces();
  const whole = Buffer.concat(sent);
  await put(Readable.from(sent, { objectMode: false }), whole.length);
  expect(received.equals(whole)).toBe(true);
  expect(Buffer.concat(sent).equals(whole)).toBe(true);
});

test('a part of a shared buffer is not freed', async () => {
  const whole = Buffer.alloc(MIB, 'shared');
  const part = giveAway(whole.subarray(0, MIB / 2));
  await put(Readable.from([part], { objectMode: false }), part.length);
  expect(received.equals(whole.subarray(0, MIB / 2))).toBe(true);
  expect(whole.length).toBe(MIB);
});
