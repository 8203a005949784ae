import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { connect } from 'node:net';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { portOf } from './index.ts';
import { GatheredRequest, SmallPieces } from './small-pieces.ts';

describe('small pieces', () => {
  it('pass completely and in order, however they are split, in blocks of at least 4 KiB', () => {
    const sizes = fc.array(fc.oneof(fc.integer({ min: 0, max: 9 }), fc.integer({ max: 9_000, min: 500 })));
    fc.assert(
      fc.property(sizes, fc.array(fc.nat(50)), (lengths, flushes) => {
        const passed: Buffer[] = [];
        const pieces = new SmallPieces((piece) => passed.push(Buffer.from(piece)) > 0);
        const sent = lengths.map((length, i) => Buffer.alloc(length, i));
        for (const [i, piece] of sent.entries()) {
          pieces.add(piece);
          if (flushes.includes(i)) pieces.flush();
        }
        pieces.flush();
        expect(Buffer.concat(passed).equals(Buffer.concat(sent))).toBe(true);
      }),
    );
  });

  it('do not change a block once it has passed, so its owner may free it', () => {
    const passed: Buffer[] = [];
    const pieces = new SmallPieces((piece) => passed.push(piece) > 0);
    for (let i = 0; i < 3 * 4_096; i += 1) {
      pieces.add(Buffer.from([i]));
      const whole = passed.at(-1);
      if (whole !== undefined && whole.length > 0) (whole.buffer as ArrayBuffer).transfer(0);
    }
    expect(passed).toHaveLength(3);
  });
});

describe('a request', () => {
  let server: Server<typeof GatheredRequest>;
  let request: GatheredRequest | undefined;
  beforeEach(async () => {
    request = undefined;
    server = createServer({ IncomingMessage: GatheredRequest }, (one) => {
      request = one;
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  });
  afterEach(() => {
    server.closeAllConnections();
    server.close();
  });

  const COUNT = 60_000;
  const HEAD = 'POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n';
  const BODY = Array.from({ length: COUNT }, (_, i) => `1\r\n${i % 10}\r\n`).join('');

  it('with a body in chunks of one byte that is not read keeps few pieces, and all of it arrives in order', async () => {
    const caller = connect(portOf(server), '127.0.0.1').on('error', () => undefined);
    caller.write(`${HEAD}${BODY}0\r\n\r\n`);
    await vi.waitFor(() => expect(request?.readableLength).toBeGreaterThan(COUNT - 5_000), 240_000);
    const pieces: Buffer[] = [];
    request?.on('data', (piece: Buffer) => pieces.push(piece));
    await once(request!, 'end');
    const all = Buffer.concat(pieces).toString();
    expect(all).toBe(Array.from({ length: COUNT }, (_, i) => i % 10).join(''));
    expect(pieces.length).toBeLessThan(200);
    caller.destroy();
  });

  it('that is interrupted reports it', async () => {
    const caller = connect(portOf(server), '127.0.0.1').on('error', () => undefined);
    caller.write(HEAD + BODY);
    await vi.waitFor(() => expect(request).toBeDefined(), 240_000);
    const broken = once(request!, 'error').catch((error: Error) => [error]);
    request?.resume();
    caller.destroy();
    expect((await broken)[0]).toMatchObject({ code: 'ECONNRESET' });
  });
});
