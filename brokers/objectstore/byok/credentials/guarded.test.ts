import { expect, test } from 'vitest';
import { type ReachSettings, reachGuard } from './guarded.ts';

const settings: ReachSettings = {
  BYOK_FIXED_HOSTS: [],
  BYOK_DENIED_BLOCKS: [],
  BYOK_ALLOWED_BLOCKS: [],
  BYOK_NAT64_PREFIXES: [],
};

test('what the network’s own NAT64 carries is judged, as an address of Capsules’ endpoints, too', () => {
  const [inside, metadata, outside] = ['2a00:64::10.1.2.3', '2a00:64::169.254.169.254', '2a00:64::8.8.8.8'];
  const usual = reachGuard(settings);
  expect([inside, outside].map((at) => usual.permits(at))).toEqual([true, true]);
  const told = reachGuard({ ...settings, BYOK_NAT64_PREFIXES: ['2a00:64::/96'] });
  expect([inside, metadata, outside].map((at) => told.permits(at))).toEqual([false, false, true]);
});

test('a prefix that is none stops the start, by the setting’s name', () => {
  const wrong = { ...settings, BYOK_NAT64_PREFIXES: ['2a00:64::/97'] };
  expect(() => reachGuard(wrong)).toThrow(/BYOK_NAT64_PREFIXES/);
});
