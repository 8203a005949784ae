import { expect, it } from 'vitest';
import type { Context } from '../context.ts';
import type { Capsule, SecretObject } from '../kinds.ts';
import { ANNOTATION } from '../names.ts';
import { release } from './release.ts';

it('notes that all is released only on the principal that it saw', async () => {
  const patches: unknown[] = [];
  const writer = { merge: async (...[, , patch]: unknown[]) => patches.push(patch) };
  const capsule: Capsule = { metadata: { name: 'home', uid: 'one' }, spec: {} };
  const secret: SecretObject = {
    metadata: { name: 'principal', resourceVersion: '7', annotations: { [ANNOTATION.owner]: 'one' } },
    data: { principal: '' },
  };
  const broker = { drop: async () => {}, finalize: async () => {} };
  await release(
    { writer } as unknown as Context,
    capsule,
    { condition: 'DatabaseReady', broker, secret },
    new AbortController().signal,
  );
  expect(patches).toEqual([
    { metadata: { resourceVersion: '7', annotations: { [ANNOTATION.finalized]: 'true' } } },
  ]);
});
