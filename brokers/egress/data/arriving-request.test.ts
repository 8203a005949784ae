import { Socket } from 'node:net';
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { ArrivingRequest } from './arriving-request.ts';

async function read(request: ArrivingRequest): Promise<Buffer[]> {
  const parts: Buffer[] = [];
  for await (const part of request.body()) parts.push(part);
  return parts;
}

describe('a body in transfer', () => {
  it('has the same bytes in the same order, however they arrive and whenever they are read', () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ bytes: fc.uint8Array({ maxLength: 3_000 }), takes: fc.boolean() })),
        async (pieces) => {
          const request = new ArrivingRequest(new Socket());
          const taken: Buffer[] = [];
          const reader = request.body();
          for (const { bytes, takes } of pieces) {
            request.push(Buffer.from(bytes));
            if (takes && bytes.length > 0) taken.push((await reader.next()).value ?? Buffer.alloc(0));
          }
          request.push(null);
          for await (const part of reader) taken.push(part);
          expect(Buffer.concat(taken).equals(Buffer.concat(pieces.map(({ bytes }) => bytes)))).toBe(true);
        },
      ),
    ));

  it('is one part if it arrived in pieces of a byte before it was read', async () => {
    const request = new ArrivingRequest(new Socket());
    for (let i = 0; i < 10_000; i++) request.push(Buffer.from('a'));
    request.push(null);
    expect((await read(request)).map(({ length }) => length)).toEqual([10_000]);
  });

  it('has few parts if it arrives in pieces of a byte while it is read, as Node parses the chunks of a segment', async () => {
    const request = new ArrivingRequest(new Socket());
    const continued = vi.spyOn(request, '_read');
    const reading = read(request);
    for (let segment = 0; segment < 3; segment++) {
      for (let i = 0; i < 2_000; i++) {
        request.push(Buffer.from('a'));
        expect(continued).toHaveBeenCalledTimes(segment + 1);
        // The reader runs between two callbacks of the parser.
        await new Promise((resolve) => process.nextTick(resolve));
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
    request.push(null);
    expect((await reading).map(({ length }) => length)).toEqual([2_000, 2_000, 2_000]);
  });

  it('is paused when too much of it waits, and continues when it is read', async () => {
    const request = new ArrivingRequest(new Socket());
    expect(request.push(Buffer.alloc(16 * 1024))).toBe(false);
    await request.body().next();
    expect(request.push(Buffer.from('a'))).toBe(true);
    let small = 1;
    while (request.push(Buffer.from('a'))) small += 1;
    expect(small).toBeLessThan(300);
  });

  it('fails when its connection ends before it', async () => {
    const request = new ArrivingRequest(new Socket());
    request.push(Buffer.from('a'));
    const reading = read(request);
    request.destroy();
    await expect(reading).rejects.toThrow('cut short');
  });
});
