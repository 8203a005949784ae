import { BrokerError } from '@space/contracts/client';
import { describe, expect, it } from 'vitest';
import type { Context } from '../context.ts';
import type { Capsule, SecretObject } from '../kinds.ts';
import { ANNOTATION, LABEL } from '../names.ts';
import { type BrokerData, endPrincipal, settle } from './release.ts';

const CAPSULE: Capsule = { metadata: { name: 'home', uid: 'one' }, spec: {} };
const { signal } = new AbortController();

function principal(finalized?: string): SecretObject {
  const annotations = {
    [ANNOTATION.owner]: 'one',
    ...(finalized === undefined ? {} : { [ANNOTATION.finalized]: finalized }),
  };
  return { metadata: { name: 'principal', resourceVersion: '7', annotations }, data: { principal: '' } };
}

/** What is done, in order; every write gives the Secret another version. */
function world(refused?: number) {
  const acts: unknown[] = [];
  let version = 7;
  const writer = {
    merge: async (...[, secret, patch]: [unknown, SecretObject, { metadata: object }]) => {
      acts.push(patch.metadata);
      version += 1;
      return { ...secret, metadata: { ...secret.metadata, resourceVersion: `${version}` } };
    },
    remove: async () => void acts.push('remove'),
  };
  const ask = async () => {
    acts.push('ask');
    if (refused === undefined) return;
    const broker = { name: 'broker', deployment: 'broker' };
    throw new BrokerError(broker, 'refused', 'no', { status: refused, code: 'refused' });
  };
  const broker = {
    drop: async () => void acts.push('drop'),
    finalize: async () => void acts.push('finalize'),
  };
  const holding = (secret: SecretObject): BrokerData => ({ condition: 'DatabaseReady', broker, ask, secret });
  const context = { writer, events: { record: () => undefined } } as unknown as Context;
  return { acts, context, holding };
}

describe('the principal of a Capsule that goes', () => {
  it('is marked before and after the drop, each time as it was seen', async () => {
    const { acts, context, holding } = world();
    await settle(context, CAPSULE, holding(principal()), false, signal);
    expect(acts).toEqual([
      { resourceVersion: '7', annotations: { [ANNOTATION.finalized]: 'begun' } },
      'drop',
      'finalize',
      { resourceVersion: '8', annotations: { [ANNOTATION.finalized]: 'true' } },
    ]);
  });

  it('is free for the next only as it was seen', async () => {
    const { acts, context } = world();
    const secret = principal();
    await endPrincipal(context, { condition: 'DatabaseReady', secret, outcome: 'kept' }, signal);
    expect(acts).toEqual([{ resourceVersion: '7', labels: { [LABEL.retained]: 'true' } }]);
  });
});

describe('a word to keep', () => {
  const outcome = async (finalized: string | undefined, refused?: number) => {
    const { acts, context, holding } = world(refused);
    const settled = await settle(context, CAPSULE, holding(principal(finalized)), true, signal);
    return ['outcome' in settled ? settled.outcome : settled.finding.reason, acts];
  };

  it('asks no broker that was never told to drop', async () => {
    expect(await outcome(undefined)).toEqual(['kept', []]);
  });

  it('counts while the principal is in force, though a drop was sent', async () => {
    expect(await outcome('begun')).toEqual(['kept', ['ask']]);
  });

  it('is too late once it is not, and the drop goes on', async () => {
    const [settled, acts] = await outcome('begun', 403);
    expect([settled, acts?.slice(0, 3)]).toEqual(['dropped', ['ask', 'drop', 'finalize']]);
  });

  it('is too late for what is dropped and finalized', async () => {
    expect(await outcome('true')).toEqual(['dropped', []]);
  });

  it('waits for a broker that cannot say', async () => {
    expect(await outcome('begun', 503)).toEqual(['BrokerRefused', ['ask']]);
  });
});
