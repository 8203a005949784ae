import { describe, expect, it } from 'vitest';
import type { Assistant, Capsule } from '../kinds.ts';
import { manifest } from '../testing/manifest.ts';
import { names } from '../testing/names.ts';
import { decideFate, ownsDatabase } from './fate.ts';

const DELETED = '2026-03-01T10:00:00Z';
const WITHIN = '2026-03-01T10:59:00Z';
const AFTER = '2026-03-01T11:00:00Z';

type Policy = 'Drop' | 'Retain' | undefined;
const going = { deletionTimestamp: DELETED };
const spec = (deletionPolicy: Policy) => (deletionPolicy === undefined ? {} : { deletionPolicy });
const assistant = (policy: Policy, deletion: object): Assistant => ({
  metadata: { name: 'ledger', uid: 'one', ...deletion },
  spec: { capsule: 'home', image: 'ledger', manifest: manifest('ledger'), ...spec(policy) },
});
const capsule = (policy: Policy, deletion: object): Capsule => ({
  metadata: { name: 'home', ...deletion },
  spec: spec(policy),
});

function fateOf(one: Assistant, of: Capsule, now: string) {
  const at = Date.parse(now);
  const clocks = { own: at, startedAt: 0, steady: at, server: at };
  const context = { names: { ...names, graceMs: 3_600_000 } };
  const { retained, grace } = decideFate(context, clocks, one, { asked: undefined, capsule: of });
  return retained ? 'retained' : grace ? 'in its grace' : 'dropped';
}

describe('what becomes of an Assistant’s data', () => {
  it.each([
    [
      'waits while the grace lasts',
      assistant(undefined, going),
      capsule(undefined, {}),
      WITHIN,
      'in its grace',
    ],
    ['is dropped after it', assistant(undefined, going), capsule(undefined, {}), AFTER, 'dropped'],
    ['is kept by its own word', assistant('Retain', going), capsule('Drop', {}), AFTER, 'retained'],
    ['is kept by its Capsule', assistant(undefined, going), capsule('Retain', {}), AFTER, 'retained'],
    [
      'is dropped with a Capsule that goes',
      assistant('Retain', going),
      capsule('Drop', going),
      AFTER,
      'dropped',
    ],
    [
      'is kept where nobody deleted it, though its Capsule goes',
      assistant('Retain', {}),
      capsule('Drop', going),
      WITHIN,
      'retained',
    ],
  ])('%s', (_, one, of, now, fate) => {
    expect(fateOf(one, of, now)).toBe(fate);
  });
});

describe('without the Secret that claims the id, as after its namespace was deleted,', () => {
  const saying = (uid: string, status: string, reason: string) => {
    const conditions = [{ type: 'DatabaseReady', status, reason, message: '', lastTransitionTime: '' }];
    const one = assistant(undefined, going);
    return { ...one, metadata: { ...one.metadata, uid }, status: { conditions } } as Assistant;
  };
  const owns = (status: string, reason: string, rivals: readonly Assistant[] = []) => {
    const one = saying('one', status, reason);
    return ownsDatabase(one, undefined, [one, ...rivals]);
  };
  it.each([
    ['True', 'Ready', true],
    ['Unknown', 'Starting', true],
    ['False', 'BrokerUnreachable', true],
    ['Unknown', 'Waiting', false],
    ['False', 'Suspended', false],
    ['False', 'DuplicateIdentifier', false],
    ['False', 'WriteRefused', false],
  ])('an Assistant whose DatabaseReady is %s %s owns the database: %s', (status, reason, expected) => {
    expect(owns(status, reason)).toBe(expected);
    expect(owns(status, reason, [saying('two', 'Unknown', 'Waiting')])).toBe(expected);
    expect(owns(status, reason, [saying('two', 'Unknown', 'Starting')])).toBe(false);
  });
});
