import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { connect } from 'node:net';
import type { Readable } from 'node:stream';
import { GatheredRequest, PIECE_MS, portOf } from '@space/broker-kit';
import { afterEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { ALONE } from '../testing/passing.ts';
import type { Passing } from '../upstream/relay.ts';
import { detach } from './request-body.ts';

/** Bodies of requests that come as fast as they can; what is counted is turns and bytes, not time. */

const KIB = 1024;
const MIB = 1024 * KIB;
const loop = () => new Promise((resolve) => setImmediate(resolve));

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

/** Sends the body to a server, which reads it as the broker does; resolves when its request has arrived. */
const arriving = (body: Buffer, passing: Passing) =>
  received(passing, (port) =>
    request({ port, host: '127.0.0.1', method: 'PUT' })
      .on('error', () => undefined)
      .end(body),
  );

/** Sends the body in chunks of a byte. */
const arrivingInBytes = (body: string, passing: Passing) =>
  received(passing, (port) => {
    const chunks = Array.from(body, (byte) => `1\r\n${byte}\r\n`).join('');
    connect(port, '127.0.0.1')
      .on('error', () => undefined)
      .write(`PUT / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`);
  });

async function received(passing: Passing, send: (port: number) => void) {
  const ending = new AbortController();
  const { promise, resolve } = Promise.withResolvers<{ arrived: GatheredRequest; stream: Readable }>();
  const server = createServer({ IncomingMessage: GatheredRequest }, (arrived) =>
    resolve({ arrived, stream: detach(arrived, { signal: ending.signal, passing }) }),
  ).listen(0, '127.0.0.1');
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  send(portOf(server));
  const { arrived, stream } = await promise;
  const got: Buffer[] = [];
  // Pieces are freed once they were sent, so what is kept is a copy.
  const bytes = () => got.reduce((sum, { length }) => sum + length, 0);
  let isWhole = false;
  stream.on('end', () => {
    isWhole = true;
  });
  const read = () => void stream.on('data', (piece: Buffer) => got.push(Buffer.from(piece)));
  return { arrived, stream, ending, got, bytes, read, isWhole: () => isWhole };
}

/** Turns that are given by hand. */
function byHand(isShared: () => boolean = () => true) {
  const line: (() => void)[] = [];
  const owed: number[] = [];
  const inTurn = <T>(act: () => T, owedMs = 0) => {
    owed.push(owedMs);
    return new Promise<T>((resolve) => void line.push(() => resolve(act())));
  };
  return { line, owed, passing: { isShared, inTurn } };
}

describe('a body in turns', () => {
  it('waits for one for each piece behind its beginning, and is complete in the end', async () => {
    const whole = randomBytes(4 * MIB);
    const { line, passing } = byHand();
    const body = await arriving(whole, passing);
    body.read();
    let turns = 0;
    while (!body.isWhole()) {
      await eventually(async () => body.isWhole() || line.length > 0, { what: 'a piece or the end' });
      // However fast the caller is, one piece waits, and nothing passes but what had its turn.
      expect(line.length).toBeLessThanOrEqual(1);
      const before = body.bytes();
      await loop();
      expect(body.bytes()).toBe(before);
      const next = line.shift();
      next?.();
      if (next !== undefined) turns += 1;
    }
    expect(Buffer.concat(body.got).equals(whole)).toBe(true);
    expect(turns).toBeGreaterThan(4 * 8);
  });

  it('waits for none if it is short', async () => {
    const { line, passing } = byHand();
    const body = await arriving(randomBytes(32 * KIB), passing);
    body.read();
    await eventually(body.isWhole, { what: 'the end' });
    expect([body.bytes(), line.length]).toEqual([32 * KIB, 0]);
  });

  it('in chunks of a byte owes the time for which they were parsed, and no second segment is parsed before that', async () => {
    const text = 'abcdefghij'.repeat(4_000);
    const { line, owed, passing } = byHand();
    const body = await arrivingInBytes(text, passing);
    body.read();
    await eventually(() => line.length > 0, { what: 'a piece that waits' });
    for (let n = 0; n < 50; n += 1) await loop();
    expect(body.arrived.smallPieces).toBeLessThan(11_000);
    while (!body.isWhole()) {
      await eventually(async () => body.isWhole() || line.length > 0, { what: 'a piece or the end' });
      line.shift()?.();
    }
    expect(Buffer.concat(body.got).toString()).toBe(text);
    // The last segment owes nothing, since nothing is read after it.
    expect(owed.reduce((sum, ms) => sum + ms, 0)).toBeGreaterThan(25_000 * PIECE_MS);
  });

  it('in chunks of a byte is drained once it is aborted', async () => {
    const { line, passing } = byHand();
    const body = await arrivingInBytes('a'.repeat(40_000), passing);
    body.read();
    await eventually(() => line.length > 0, { what: 'a piece that waits' });
    body.ending.abort(new Error('gone'));
    body.arrived.resume();
    await eventually(() => body.arrived.complete, { what: 'the end' });
  });

  it('waits for none while there is nobody else', async () => {
    const whole = randomBytes(4 * MIB);
    const body = await arriving(whole, ALONE);
    body.read();
    await eventually(body.isWhole, { what: 'the end' });
    expect(Buffer.concat(body.got).equals(whole)).toBe(true);
  });

  it('asks for no turn while its reader takes nothing', async () => {
    const whole = randomBytes(4 * MIB);
    const { line, passing } = byHand();
    const body = await arriving(whole, passing);
    body.stream.pause();
    let turns = 0;
    for (let n = 0; n < 100; n += 1) {
      await loop();
      const next = line.shift();
      next?.();
      if (next !== undefined) turns += 1;
    }
    expect(turns).toBeLessThan(8);
    expect(body.stream.readableLength).toBeLessThan(512 * KIB);
  });

  it('passes nothing more once it is aborted', async () => {
    const { line, passing } = byHand();
    const body = await arriving(randomBytes(4 * MIB), passing);
    body.read();
    await eventually(() => line.length > 0, { what: 'a piece that waits' });
    const before = body.bytes();
    body.ending.abort(new Error('gone'));
    line.shift()?.();
    await loop();
    expect([body.bytes(), body.stream.destroyed, line.length]).toEqual([before, true, 0]);
  });
});
