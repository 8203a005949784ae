import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { acts, CANARY, replies, startTakenOver, WHOLE } from '../testing/taken-over.ts';

let broker: Awaited<ReturnType<typeof startTakenOver>>;
beforeAll(async () => {
  broker = await startTakenOver();
});
afterAll(() => broker.close());

describe('a broker that was taken over', () => {
  it('is shown while its answers have the specified form', async () => {
    const page = await broker.sent('look', WHOLE);
    for (const words of ['archive', 's3.bank.org', 'Secret access key']) expect(page).toContain(words);
  });

  it('cannot put a byte of a key into a page, wherever it is in its answers', async () => {
    await fc.assert(
      fc.asyncProperty(acts, replies, async (act, answers) => {
        expect(await broker.sent(act, answers)).not.toContain(CANARY);
      }),
      { numRuns: 300 },
    );
  });
});
