import { BrokerError } from '@space/contracts/client';
import { describe, expect, it } from 'vitest';
import type { Context } from '../context.ts';
import type { Capsule, SecretObject } from '../kinds.ts';
import { ANNOTATION, LABEL, objectPrincipalSecretName, principalSecretName } from '../names.ts';
import { names } from '../testing/names.ts';
import { type BrokerData, endPrincipal, readBrokerData, settle } from './release.ts';

const CAPSULE: Capsule = { metadata: { name: 'home', uid: 'one' }, spec: {} };
const { signal } = new AbortController();

type Call = 'ask' | 'drop' | 'finalize';
type Refusals = Partial<Record<Call, unknown>>;

const failure = (kind: BrokerError['failure'], status: number, code = 'refused') =>
  new BrokerError({ name: 'broker', deployment: 'broker' }, kind, 'no', { status, code });
const refusal = (status: number, code?: string) => failure('refused', status, code);

function principal(finalized?: string, labels = {}): SecretObject {
  const annotations = {
    [ANNOTATION.owner]: 'one',
    ...(finalized === undefined ? {} : { [ANNOTATION.finalized]: finalized }),
  };
  return {
    metadata: { name: 'principal', resourceVersion: '7', annotations, labels },
    data: { principal: '' },
  };
}

/** What is done, in order; every write gives the Secret another version. */
function world(refused: Refusals = {}) {
  const acts: unknown[] = [];
  const events: unknown[] = [];
  let version = 7;
  const writer = {
    merge: async (...[, secret, patch]: [unknown, SecretObject, { metadata: object }]) => {
      acts.push(patch.metadata);
      version += 1;
      return { ...secret, metadata: { ...secret.metadata, resourceVersion: `${version}` } };
    },
    remove: async () => void acts.push('remove'),
  };
  const call = (what: Call) => async () => {
    acts.push(what);
    if (refused[what] !== undefined) throw refused[what];
  };
  const broker = { drop: call('drop'), finalize: call('finalize') };
  const holding = (secret?: SecretObject): BrokerData => ({
    ...{ condition: 'DatabaseReady', broker, ask: call('ask'), secret },
  });
  const record = (...[, , event]: [unknown, unknown, unknown]) => events.push(event);
  const context = { writer, events: { record }, names } as unknown as Context;
  return { acts, events, context, holding };
}

const BEGUN = { resourceVersion: '7', annotations: { [ANNOTATION.finalized]: 'begun' } };
const DONE = { resourceVersion: '8', annotations: { [ANNOTATION.finalized]: 'true' } };

/** What the Capsule's status says of the database broker. */
const told = (status: 'True' | 'False'): Capsule => ({
  ...CAPSULE,
  status: {
    conditions: [{ type: 'DatabaseReady', status, reason: '', message: '', lastTransitionTime: '' }],
  },
});

describe('the principal of a Capsule in deletion', () => {
  it('is marked before and after the drop, each time with the resourceVersion that was read', async () => {
    const { acts, context, holding } = world();
    expect(await settle(context, CAPSULE, { ...holding(principal()), retain: false }, signal)).toMatchObject({
      outcome: 'dropped',
    });
    expect(acts).toEqual([BEGUN, 'drop', 'finalize', DONE]);
  });

  it('does not block if it is already retired, or everything is already finalized', async () => {
    const { acts, context, holding } = world({ drop: refusal(403), finalize: refusal(404) });
    await settle(context, CAPSULE, { ...holding(principal()), retain: false }, signal);
    expect(acts).toEqual([BEGUN, 'drop', 'finalize', DONE]);
  });

  it.each<[string, Refusals, string]>([
    ['the drop is refused otherwise', { drop: refusal(404) }, 'BrokerRefused'],
    ['finalizing is refused otherwise', { finalize: refusal(403) }, 'BrokerRefused'],
    [
      'it is no broker of ours that has no such thing',
      { finalize: failure('not-ours', 404) },
      'BrokerNotOurs',
    ],
    ['the broker is away', { drop: failure('unreachable', 503) }, 'BrokerUnreachable'],
  ])('is not marked as done while %s', async (_, refused, reason) => {
    const { acts, events, context, holding } = world(refused);
    expect(await settle(context, CAPSULE, { ...holding(principal()), retain: false }, signal)).toMatchObject({
      finding: { reason },
    });
    expect(acts).not.toContainEqual(DONE);
    expect(events).toEqual([expect.objectContaining({ type: 'Warning', reason: 'FinalizationBlocked' })]);
  });

  it('is named by its Secret if it has to be replaced', async () => {
    const blocked = async (secret: SecretObject | undefined) => {
      const { context, holding } = world({ finalize: refusal(409, 'conflict') });
      const settled = await settle(context, told('True'), { ...holding(secret), retain: false }, signal);
      return 'finding' in settled ? settled.finding.message : settled.outcome;
    };
    expect(await blocked(principal())).toContain('get secret principal');
    expect(await blocked(undefined)).not.toContain('get secret');
  });

  it('is unchanged if the answer is not a broker’s', async () => {
    const { context, holding } = world({ drop: new Error('a defect') });
    await expect(
      settle(context, CAPSULE, { ...holding(principal()), retain: false }, signal),
    ).rejects.toThrow('a defect');
  });

  it('is missing: what the broker registered is finalized without it', async () => {
    const { acts, context, holding } = world();
    await settle(context, told('True'), { ...holding(), retain: false }, signal);
    expect(acts).toEqual(['finalize']);
  });

  it('is missing: a broker that registered nothing is not called', async () => {
    const { acts, context, holding } = world();
    await settle(context, told('False'), { ...holding(), retain: false }, signal);
    expect(acts).toEqual([]);
  });
});

describe('afterwards the principal', () => {
  const end = async (secret: SecretObject | undefined, outcome: 'kept' | 'dropped' | 'lost') => {
    const { acts, context } = world();
    await endPrincipal(context, { condition: 'DatabaseReady', secret, outcome }, signal);
    return acts;
  };

  it('is released for the next Capsule only with the resourceVersion that was read', async () => {
    expect(await end(principal(), 'kept')).toEqual([
      { resourceVersion: '7', labels: { [LABEL.retained]: 'true' } },
    ]);
  });

  it('is not released twice', async () => {
    expect(await end(principal(undefined, { [LABEL.retained]: 'true' }), 'kept')).toEqual([]);
  });

  it('is removed together with what it gave access to', async () => {
    expect(await end(principal(), 'dropped')).toEqual(['remove']);
  });

  it('needs nothing if it was lost', async () => {
    expect(await end(undefined, 'lost')).toEqual([]);
    expect(await end(undefined, 'kept')).toEqual([]);
  });
});

describe('a request to keep the data', () => {
  const outcome = async (finalized: string | undefined, ask?: unknown) => {
    const { acts, context, holding } = world({ ask });
    const settled = await settle(
      context,
      CAPSULE,
      { ...holding(principal(finalized)), retain: true },
      signal,
    );
    return ['outcome' in settled ? settled.outcome : settled.finding.reason, acts];
  };

  it('calls no broker that was never told to drop', async () => {
    expect(await outcome(undefined)).toEqual(['kept', []]);
  });

  it('is followed while the principal is valid, although a drop was sent', async () => {
    expect(await outcome('begun')).toEqual(['kept', ['ask']]);
  });

  it('is too late once the principal is retired, and the drop continues', async () => {
    const [settled, acts] = await outcome('begun', refusal(403));
    expect([settled, acts?.slice(0, 3)]).toEqual(['dropped', ['ask', 'drop', 'finalize']]);
  });

  it('is too late for data that is dropped and finalized', async () => {
    expect(await outcome('true')).toEqual(['dropped', []]);
  });

  it('waits for a broker that does not answer', async () => {
    expect(await outcome('begun', refusal(503))).toEqual(['BrokerRefused', ['ask']]);
  });

  it.each<['True' | 'False', string]>([
    ['True', 'lost'],
    ['False', 'kept'],
  ])(
    'without the principal, at a broker that is recorded as having registered something (%s): %s',
    async (status, known) => {
      const { acts, context, holding } = world();
      const settled = await settle(context, told(status), { ...holding(), retain: true }, signal);
      expect([settled, acts]).toEqual([expect.objectContaining({ outcome: known }), []]);
    },
  );
});

describe('what brokers keep for a Capsule', () => {
  const secrets = (): Record<string, SecretObject> => ({
    [principalSecretName('home')]: principal(),
    [objectPrincipalSecretName('home')]: {
      ...principal(),
      metadata: { name: 'of another', annotations: { [ANNOTATION.owner]: 'two' } },
    },
  });
  const client = {
    call: async ({ path }: { path: string }) => secrets()[path.slice(path.lastIndexOf('/') + 1)],
  };
  const database = (refused: unknown) => ({
    drop: async () => undefined,
    finalize: async () => undefined,
    appUsage: () => Promise.reject(refused),
  });
  const read = (objectStore?: object, refused: unknown = refusal(404)) => {
    const context = { client, names, database: database(refused), objectStore } as unknown as Context;
    return readBrokerData(context, CAPSULE, signal);
  };

  it('is only the database in a Space without an object store', async () => {
    expect((await read()).map(({ condition }) => condition)).toEqual(['DatabaseReady']);
  });

  it('is accessible only with this Capsule’s own principals', async () => {
    const both = await read({ usage: async () => undefined });
    expect(both.map(({ condition, secret }) => [condition, secret?.metadata.name])).toEqual([
      ['DatabaseReady', 'principal'],
      ['ObjectStoreReady', undefined],
    ]);
  });

  it('is queried with a request for any workload, also for one that does not exist', async () => {
    const [known] = await read();
    expect(await known?.ask(undefined as never, signal)).toBeUndefined();
    const [retired] = await read(undefined, refusal(403));
    await expect(retired?.ask(undefined as never, signal)).rejects.toMatchObject({ status: 403 });
  });
});
