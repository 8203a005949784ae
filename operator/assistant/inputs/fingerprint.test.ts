import { Secret } from '@space/contracts/secret';
import { expect, test } from 'vitest';
import { differs, fingerprintOf, oneByOne } from './fingerprint.ts';

const value = new Secret('sk_live_canary_9f3b51');

test('a fingerprint recognises its own value only, and differs each time it is computed', async () => {
  const [first, second] = [await fingerprintOf(value), await fingerprintOf(value)];
  expect(first).not.toBe(second);
  for (const fingerprint of [first, second]) {
    expect(await differs(fingerprint, new Secret(value.reveal()))).toBe(false);
    expect(await differs(fingerprint, new Secret(`${value.reveal()}2`))).toBe(true);
  }
});

test('a fingerprint has so few bits that many values share it', async () => {
  const [, bits = ''] = (await fingerprintOf(value)).split('.');
  expect(Buffer.from(bits, 'base64url')).toHaveLength(3);
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
