import { Secret } from '@space/contracts/secret';
import { expect, test } from 'vitest';
import { differs, fingerprintOf } from './fingerprint.ts';

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
