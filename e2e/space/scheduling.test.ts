import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Helm, podsIn, set, startHelm } from './testing/rendered.ts';

let helm: Helm;
beforeAll(async () => {
  helm = await startHelm();
}, 600_000);
afterAll(() => helm?.close());

const affinities = async (...values: string[]) =>
  new Map([...podsIn(await helm.render(...set(...values)))].map(([name, { affinity }]) => [name, affinity]));

it('prefers one node for PostgreSQL and the S3 server, which have one pod each, and for nothing else', async () => {
  const term = {
    topologyKey: 'kubernetes.io/hostname',
    labelSelector: {
      matchLabels: { 'platform.space/space': 'home' },
      matchExpressions: [{ key: 'platform.space/component', operator: 'In', values: ['postgres', 's3'] }],
    },
  };
  const together = {
    podAffinity: {
      preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 100, podAffinityTerm: term }],
    },
  };
  const all = [...(await affinities())].filter(([, affinity]) => affinity !== undefined);
  expect(Object.fromEntries(all)).toEqual({ postgres: together, s3: together });
});

it('prefers no node for PostgreSQL where there is no S3 server beside it', async () => {
  const of = await affinities('objectStore.enabled=false');
  expect(of.has('postgres')).toBe(true);
  expect([...of.values()].filter((affinity) => affinity !== undefined)).toEqual([]);
});

it('gives every pod of the Space the affinity that somebody chose, and only that', async () => {
  const rule = 'scheduling.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution';
  const of = await affinities(`${rule}[0].topologyKey=zone`);
  const chosen = {
    podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [{ topologyKey: 'zone' }] },
  };
  expect(of.size).toBeGreaterThan(5);
  for (const affinity of of.values()) expect(affinity).toEqual(chosen);
});
