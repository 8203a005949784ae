import { Secret } from '@space/contracts/secret';
import { expect, test } from 'vitest';
import { Fingerprints, oneByOne } from './fingerprint.ts';

const fingerprints = new Fingerprints();
const value = new Secret('sk_live_canary_9f3b51');

test('a fingerprint recognises its own value only, and differs each time it is computed', async () => {
  const [first, second] = [await fingerprints.of(value), await fingerprints.of(value)];
  expect(first).not.toBe(second);
  for (const fingerprint of [first, second]) {
    expect(await fingerprints.differs(fingerprint, new Secret(value.reveal()), 'same')).toBe(false);
    expect(await fingerprints.differs(fingerprint, new Secret(`${value.reveal()}2`), 'other')).toBe(true);
  }
});

test('a fingerprint has so few bits that many values share it', async () => {
  const [, bits = ''] = (await fingerprints.of(value)).split('.');
  expect(Buffer.from(bits, 'base64url')).toHaveLength(3);
});

test('a comparison is done once for each place, and by each operator itself', async () => {
  const fingerprint = await fingerprints.of(value);
  const other = new Secret('another');
  expect(await fingerprints.differs(fingerprint, value, 'u/1')).toBe(false);
  // No place has another value, so this shows that it is not compared.
  expect(await fingerprints.differs(fingerprint, other, 'u/1')).toBe(false);
  expect(await fingerprints.differs(fingerprint, other, 'u/2')).toBe(true);
  expect(await fingerprints.differs(await fingerprints.of(value), other, 'u/1')).toBe(true);
  expect(await new Fingerprints().differs(fingerprint, other, 'u/1')).toBe(true);
});

test('a salt comes from the given randomness', async () => {
  const fixed = new Fingerprints((bytes) => Buffer.alloc(bytes, 7));
  expect(await fixed.of(value)).toBe(await fixed.of(value));
  expect((await fixed.of(value)).split('.', 1)).toEqual([Buffer.alloc(16, 7).toString('base64url')]);
});

test('work is done one after the other, also after one that failed', async () => {
  let [running, most] = [0, 0];
  const work = oneByOne(async (fails: boolean) => {
    running += 1;
    most = Math.max(most, running);
    await Promise.resolve();
    running -= 1;
    if (fails) throw new Error('it failed');
  });
  const ended = await Promise.allSettled([false, true, false, false].map((fails) => work(fails)));
  expect(ended.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled']);
  expect(most).toBe(1);
});
