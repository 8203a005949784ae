import { expect, it } from 'vitest';
import { limitsIn, readConfig } from './config.ts';
import { type DataLimits, DEFAULT_LIMITS } from './data/limits.ts';

const SETTINGS: Readonly<Record<string, readonly [limit: keyof DataLimits, ofOne?: number]>> = {
  CALLER_CONNECTIONS: ['connections'],
  CALLER_TUNNELS: ['tunnels'],
  CALLER_REQUESTS: ['requests'],
  CALLER_PER_SECOND: ['perSecond'],
  CALLER_BURST: ['burst'],
  CALLER_BODY_BYTES: ['bodyBytes'],
  CAPSULE_CONNECTIONS: ['capsuleConnections'],
  CAPSULE_TUNNELS: ['capsuleTunnels'],
  CAPSULE_REQUESTS: ['capsuleRequests'],
  CAPSULE_PER_SECOND: ['capsulePerSecond'],
  CAPSULE_SIGNED_BYTES: ['capsuleSignedBytes'],
  ALL_CONNECTIONS: ['allConnections'],
  ALL_TUNNELS: ['allTunnels'],
  ALL_REQUESTS: ['allRequests'],
  ALL_SIGNED_BYTES: ['allSignedBytes'],
  ANSWER_SECONDS: ['answerMs', 1_000],
  BODY_IDLE_SECONDS: ['bodyIdleMs', 1_000],
  TUNNEL_IDLE_SECONDS: ['tunnelIdleMs', 1_000],
  INPUT_REFLECTIONS: ['reflections'],
};

it('each setting is the limit that it names, and changes no other', () => {
  const read = (settings: object) => limitsIn(readConfig({ SPACE_NAME: 'test', ...settings }));
  const before = read({});
  expect(Object.keys(SETTINGS)).toHaveLength(Object.keys(before).length);
  for (const [name, [limit, ofOne = 1]] of Object.entries(SETTINGS)) {
    expect(before[limit]).toBe(DEFAULT_LIMITS[limit]);
    // Less than half of it for a share of one, more for the share of all, would be refused.
    const changed = Math.floor((DEFAULT_LIMITS[limit] / ofOne) * (name.startsWith('ALL_') ? 2 : 0.5));
    expect([name, read({ [name]: String(changed) })]).toEqual([
      name,
      { ...before, [limit]: changed * ofOne },
    ]);
  }
});
