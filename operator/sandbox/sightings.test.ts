import { expect, test } from 'vitest';
import { Sightings } from './sightings.ts';

test('the age of a pod counts from when the operator first saw it, whatever its timestamps, and is forgotten when it ends', () => {
  let now = 1_000;
  const sightings = new Sightings(() => now);
  const pod = { metadata: { name: 'p', uid: 'u', creationTimestamp: '2099-01-01T00:00:00Z' } };
  expect(sightings.ageMs(pod)).toBe(0);
  sightings.note(pod, true);
  now += 30_000;
  sightings.note(pod, true);
  expect(sightings.ageMs(pod)).toBe(30_000);
  sightings.note(pod, false);
  expect(sightings.ageMs(pod)).toBe(0);
});
