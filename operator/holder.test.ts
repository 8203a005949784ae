import { expect, test } from 'vitest';
import { isCandidateEnding } from './holder.ts';
import type { Pod } from './kinds.ts';
import { LABEL } from './names.ts';
import { makeKey } from './runtime/kube-object.ts';

const pod = (component: string, namespace: string, deletionTimestamp?: string): Pod => ({
  metadata: {
    ...{ name: 'p', namespace, labels: { [LABEL.component]: component } },
    ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
  },
});
const AT = '2026-11-28T12:00:00Z';

test('a pod of the operator ends when it is asked to, or is gone, and other pods concern nobody', () => {
  const ends = (before: Pod | undefined, now: Pod | undefined) =>
    isCandidateEnding('home-system', { key: makeKey('home-system', 'p'), before, now, origin: 'watch' });
  const [running, asked] = [pod('operator', 'home-system'), pod('operator', 'home-system', AT)];
  expect(ends(running, asked)).toBe(true);
  expect(ends(running, undefined)).toBe(true);
  expect(ends(undefined, running)).toBe(false);
  expect(ends(running, running)).toBe(false);
  expect(ends(asked, undefined)).toBe(false);
  expect(ends(pod('console', 'home-system'), undefined)).toBe(false);
  expect(ends(pod('operator', 'home-household'), undefined)).toBe(false);
});
