import { Socket } from 'node:net';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
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
    for (let i = 0; i < 10_000; i++) expect(request.push(Buffer.from('a'))).toBe(true);
    request.push(null);
    expect((await read(request)).map(({ length }) => length)).toEqual([10_000]);
  });

  it('is paused when too much of it waits, and continues when it is read', async () => {
    const request = new ArrivingRequest(new Socket());
    expect(request.push(Buffer.alloc(16 * 1024))).toBe(false);
    await request.body().next();
    expect(request.push(Buffer.from('a'))).toBe(true);
  });

  it('fails when its connection ends before it', async () => {
    const request = new ArrivingRequest(new Socket());
    request.push(Buffer.from('a'));
    const reading = read(request);
    request.destroy();
    await expect(reading).rejects.toThrow('cut short');
  });
});
