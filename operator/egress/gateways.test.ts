import { expect, test } from 'vitest';
import { egressGateways } from './gateways.ts';
import { type CallReplica, ReplicaError } from './replica.ts';

const replica = { key: 'start-1', address: '10.0.0.1', pod: 'start', serving: true, lost: false };
const about = { capsule_id: 'home', app_id: 'ledger', assistant_uid: 'u1' };
const narrow = { ...about, generation: 1, allowed_hosts: [], stored_inputs: {} };
const signal = new AbortController().signal;
const nowhere = () => [];

test('a policy that a replica has is not sent again, and nothing is remembered of a removed Assistant', async () => {
  const asked: string[] = [];
  const call: CallReplica = async (_replica, operation) => {
    asked.push(operation);
    return { instance: 'start-1' } as never;
  };
  const gateways = egressGateways(() => [replica], call);
  await gateways.narrow(narrow, nowhere, signal);
  await gateways.narrow(narrow, nowhere, signal);
  expect([asked, gateways.settled(replica, about)]).toEqual([['policy.narrow'], true]);
  await gateways.remove(about, signal);
  expect(gateways.settled(replica, about)).toBeUndefined();
  await gateways.narrow(narrow, nowhere, signal);
  expect(asked).toEqual(['policy.narrow', 'policy.remove', 'policy.narrow']);
});

test('a replica of an earlier release, which knows no addresses in a narrowing, narrows without them', async () => {
  const asked: unknown[] = [];
  const call = (answer: (request: object) => void): CallReplica =>
    (async (_replica: unknown, _operation: unknown, request: object) => {
      asked.push(request);
      answer(request);
      return { narrowed: true, instance: 'start-1' };
    }) as never;
  const moving = { ...narrow, addresses: ['10.0.0.2'] };
  const earlier = call((request) => {
    if ('addresses' in request) throw new ReplicaError('invalid_request');
  });
  expect(
    (await egressGateways(() => [replica], earlier).narrow(narrow, () => moving.addresses, signal)).problem,
  ).toBeUndefined();
  expect(asked.splice(0)).toEqual([moving, narrow]);
  const refusing = call(() => {
    throw new ReplicaError('conflict');
  });
  expect(
    (await egressGateways(() => [replica], refusing).narrow(narrow, () => moving.addresses, signal)).problem,
  ).toBeDefined();
  expect(asked).toEqual([moving]);
});

test('a replica of an earlier release gets what running pods were given as the first thing that it may not know', async () => {
  const asked: object[] = [];
  const knows = (...fields: readonly string[]): CallReplica =>
    (async (_replica: unknown, _operation: unknown, request: object) => {
      asked.push(request);
      if (['running', 'addresses'].some((field) => field in request && !fields.includes(field)))
        throw new ReplicaError('invalid_request');
      return { narrowed: true, instance: 'start-1' };
    }) as never;
  const running = { revision: 'r', principals: ['p'], allowed_hosts: ['a.org'], stored_inputs: {} };
  const [addresses, whole] = [['10.0.0.2'], { ...narrow, running }];
  for (const fields of [['running', 'addresses'], ['addresses'], []]) {
    const gateways = egressGateways(() => [replica], knows(...fields));
    expect((await gateways.narrow(whole, () => addresses, signal)).problem).toBeUndefined();
    expect(asked.splice(0)).toEqual(
      [{ ...whole, addresses }, { ...narrow, addresses }, narrow].slice(0, 3 - fields.length),
    );
  }
});

test('inputs that a gateway names but was not sent are ignored', async () => {
  const answer = { revision: 'r', reentry: ['bank', 's3cr3t-of-another'], resealed: {} };
  const gateways = egressGateways(() => [replica], (async () => answer) as never);
  const about = { capsule_id: 'home', app_id: 'a', assistant_uid: 'u', revision: 'r' };
  const put = { ...about, allowed_hosts: [], stored_inputs: { bank: { definition: {}, envelope: 'e' } } };
  const { reentry } = await gateways.put(put as never, nowhere, signal);
  expect(reentry).toEqual(['bank']);
});

/** Replicas that answer, or not, when they are told to. */
function replicasWithPods() {
  const [a, b] = ['a', 'b'].map((key) => ({
    key,
    address: `10.0.0.${key}`,
    pod: `pod-${key}`,
    serving: true,
    lost: false,
  }));
  const said: string[] = [];
  const held = new Map<string, PromiseWithResolvers<void>>();
  const broken = new Map<string, ReplicaError>();
  const hidden = new Set<string>();
  const changed = new Map<string, { serving: boolean; lost: boolean }>();
  let pods: readonly string[] = ['10.1.0.1'];
  const call = (async (
    { key }: { key: string },
    operation: string,
    { addresses }: { addresses?: readonly string[] },
    signal: AbortSignal,
  ) => {
    said.push(`${key} ${operation} ${addresses?.join() ?? '-'}`);
    const error = broken.get(key);
    if (error) throw error;
    await Promise.race([held.get(key)?.promise, once(signal)]);
    return { revision: 'r', reentry: [], resealed: {} };
  }) as unknown as CallReplica;
  const present = () =>
    [a, b]
      .filter((one) => one !== undefined)
      .filter(({ key }) => !hidden.has(key))
      .map((one) => ({ ...one, ...changed.get(one.key) }));
  const gateways = egressGateways(present, call);
  return {
    gateways,
    said: () => said.splice(0),
    addresses: () => pods,
    go: (...addresses: string[]) => {
      pods = addresses;
    },
    hold: (key: string) => held.set(key, Promise.withResolvers()),
    release: (key: string) => {
      held.get(key)?.resolve();
      held.delete(key);
    },
    breaks: (key: string, code = 'nothing') => broken.set(key, new ReplicaError(code)),
    repair: (key: string) => broken.delete(key),
    hide: (key: string) => hidden.add(key),
    show: (key: string) => hidden.delete(key),
    turns: (key: string, lost: boolean) => changed.set(key, { serving: false, lost }),
  };
}
const once = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));

const put = { ...about, generation: 1, revision: 'r', principals: [], stored_inputs: {} };
const open = { ...put, allowed_hosts: ['a.org'] };

test('the address of a new pod is sent while another replica, or the reconcile of its Assistant, is stuck', async () => {
  const { gateways, said, addresses, go, hold, release } = replicasWithPods();
  await gateways.put(open, addresses, signal);
  expect(said()).toEqual(['a policy.put 10.1.0.1', 'b policy.put 10.1.0.1']);
  hold('b');
  const reconcile = gateways.put({ ...open, generation: 2 }, addresses, signal);
  await expect.poll(said).toEqual(['a policy.put 10.1.0.1', 'b policy.put 10.1.0.1']);
  go('10.1.0.1', '10.1.0.2');
  const announced = gateways.announce(about, addresses, signal);
  await expect.poll(said).toEqual(['a policy.put 10.1.0.1,10.1.0.2']);
  release('b');
  await Promise.all([reconcile, announced]);
  expect(said()).toEqual(['b policy.put 10.1.0.1,10.1.0.2']);
  // The reconcile that the pod caused finds everything sent.
  await gateways.put({ ...open, generation: 2 }, addresses, signal);
  expect(said()).toEqual([]);
});

test('a message that was behind another has the addresses of the moment at which it is sent', async () => {
  const { gateways, said, addresses, go, hold, release } = replicasWithPods();
  await gateways.put(open, addresses, signal);
  said();
  hold('a');
  go('10.1.0.2');
  const announced = gateways.announce(about, addresses, signal);
  await expect.poll(said).toEqual(['a policy.put 10.1.0.2', 'b policy.put 10.1.0.2']);
  const reconcile = gateways.put({ ...open, generation: 2 }, addresses, signal);
  go('10.1.0.3');
  release('a');
  await Promise.all([announced, reconcile]);
  expect(said().toSorted()).toEqual(['a policy.put 10.1.0.3', 'b policy.put 10.1.0.3']);
  await gateways.announce(about, addresses, signal);
  expect(said()).toEqual([]);
});

test('addresses alone give a replica no policy, bring none back, and are not sent for one that opens nothing', async () => {
  const { gateways, said, addresses, go } = replicasWithPods();
  await gateways.announce(about, addresses, signal);
  expect(said()).toEqual([]);
  await gateways.put(open, addresses, signal);
  await gateways.narrow(narrow, addresses, signal);
  said();
  go('10.1.0.2');
  await gateways.announce(about, addresses, signal);
  expect(said()).toEqual([]);
  await gateways.narrow({ ...narrow, allowed_hosts: ['a.org'] }, addresses, signal);
  said();
  go('10.1.0.3');
  await gateways.announce({ ...about, assistant_uid: 'another' }, addresses, signal);
  expect(said()).toEqual([]);
  await gateways.announce(about, addresses, signal);
  expect(said()).toEqual(['a policy.narrow 10.1.0.3', 'b policy.narrow 10.1.0.3']);
  await gateways.remove(about, signal);
  said();
  go('10.1.0.4');
  await gateways.announce(about, addresses, signal);
  expect(said()).toEqual([]);
});

test('a replica that did not take the addresses is sent everything again', async () => {
  const { gateways, said, addresses, go, hold, release } = replicasWithPods();
  await gateways.put(open, addresses, signal);
  said();
  hold('a');
  go('10.1.0.2');
  const abort = new AbortController();
  const announced = gateways.announce(about, addresses, abort.signal);
  await expect.poll(said).toEqual(['a policy.put 10.1.0.2', 'b policy.put 10.1.0.2']);
  abort.abort(new Error('the lead is lost'));
  await expect(announced).rejects.toThrow('the lead is lost');
  expect([gateways.settled({ key: 'a' }, about), gateways.settled({ key: 'b' }, about)]).toEqual([
    false,
    true,
  ]);
  release('a');
  await gateways.put(open, addresses, signal);
  expect(said()).toEqual(['a policy.put 10.1.0.2']);
});

test('a replica that missed one announcement gets the next, and whoever announces hears of it', async () => {
  const { gateways, said, addresses, go, breaks, repair } = replicasWithPods();
  await gateways.put(open, addresses, signal);
  said();
  breaks('a');
  go('10.1.0.2');
  await expect(gateways.announce(about, addresses, signal)).rejects.toThrow(ReplicaError);
  expect(said()).toEqual(['a policy.put 10.1.0.2', 'b policy.put 10.1.0.2']);
  repair('a');
  await gateways.announce(about, addresses, signal);
  expect(said()).toEqual(['a policy.put 10.1.0.2']);
  go('10.1.0.3');
  await gateways.announce(about, addresses, signal);
  expect(said()).toEqual(['a policy.put 10.1.0.3', 'b policy.put 10.1.0.3']);
});

test('an announcement that a replica refuses is not repeated', async () => {
  const { gateways, said, addresses, go, breaks } = replicasWithPods();
  await gateways.put(open, addresses, signal);
  breaks('a', 'conflict');
  go('10.1.0.2');
  await expect(gateways.announce(about, addresses, signal)).rejects.toThrow('conflict');
  said();
  await gateways.announce(about, addresses, signal);
  expect(said()).toEqual([]);
});

test('an announcement brings back nothing that a later policy was to replace, though that did not arrive', async () => {
  const { gateways, said, addresses, go, breaks, repair } = replicasWithPods();
  await gateways.put(open, addresses, signal);
  breaks('a');
  const narrowed = await gateways.narrow({ ...narrow, allowed_hosts: ['a.org'] }, addresses, signal);
  expect(narrowed.problem).toBeInstanceOf(ReplicaError);
  repair('a');
  go('10.1.0.2');
  said();
  await gateways.announce(about, addresses, signal);
  expect(said()).toEqual(['a policy.narrow 10.1.0.2', 'b policy.narrow 10.1.0.2']);

  await gateways.put(open, addresses, signal);
  breaks('a');
  await gateways.narrow(narrow, addresses, signal);
  repair('a');
  go('10.1.0.3');
  said();
  await gateways.announce(about, addresses, signal);
  expect(said()).toEqual([]);
});

test('nothing is announced of an Assistant that was to be removed, though a replica did not answer', async () => {
  const { gateways, said, addresses, go, breaks, repair } = replicasWithPods();
  await gateways.put(open, addresses, signal);
  breaks('a');
  expect((await gateways.remove(about, signal))?.problem).toBeInstanceOf(ReplicaError);
  repair('a');
  go('10.1.0.2');
  said();
  await gateways.announce(about, addresses, signal);
  expect(said()).toEqual([]);
});

test('a removal names each replica that has not acknowledged it, also one that refuses or serves nobody', async () => {
  const { gateways, said, addresses, breaks, repair, turns, hide } = replicasWithPods();
  await gateways.put(open, addresses, signal);
  breaks('a');
  expect(await gateways.remove(about, signal)).toMatchObject({ pods: ['pod-a'] });
  breaks('b', 'invalid_request');
  expect(await gateways.remove(about, signal)).toMatchObject({ pods: ['pod-a', 'pod-b'] });
  turns('a', false);
  repair('b');
  expect(await gateways.remove(about, signal)).toMatchObject({ pods: ['pod-a'] });
  turns('a', true);
  said();
  expect(await gateways.remove(about, signal)).toBeUndefined();
  expect(said()).toEqual(['a policy.remove -', 'b policy.remove -']);
  turns('a', false);
  hide('a');
  expect(await gateways.remove(about, signal)).toBeUndefined();
});

test('a policy that did not arrive counts as acknowledged only after it was sent again', async () => {
  const { gateways, said, addresses, breaks, repair } = replicasWithPods();
  breaks('a');
  expect(await gateways.put(open, addresses, signal)).toMatchObject({ serving: 2, acknowledged: 1 });
  expect(await gateways.put(open, addresses, signal)).toMatchObject({ serving: 2, acknowledged: 1 });
  await expect(gateways.announce(about, addresses, signal)).rejects.toThrow(ReplicaError);
  expect(await gateways.put(open, addresses, signal)).toMatchObject({ serving: 2, acknowledged: 1 });
  expect(gateways.settled({ key: 'a' }, about)).toBe(false);
  repair('a');
  said();
  expect(await gateways.put(open, addresses, signal)).toMatchObject({ serving: 2, acknowledged: 2 });
  expect(said()).toEqual(['a policy.put 10.1.0.1']);
});

test('a replica that is away for a moment is told one thing after the other all the same', async () => {
  const { gateways, said, addresses, go, hold, release, hide, show } = replicasWithPods();
  await gateways.put(open, addresses, signal);
  said();
  hold('a');
  const first = gateways.put({ ...open, generation: 2 }, addresses, signal);
  await expect.poll(said).toEqual(['a policy.put 10.1.0.1', 'b policy.put 10.1.0.1']);
  hide('a');
  await gateways.narrow({ ...narrow, app_id: 'another' }, addresses, signal);
  expect(said()).toEqual(['b policy.narrow 10.1.0.1']);
  show('a');
  go('10.1.0.2');
  const second = gateways.put({ ...open, generation: 3 }, addresses, signal);
  await expect.poll(said).toEqual(['b policy.put 10.1.0.2']);
  release('a');
  await Promise.all([first, second]);
  expect(said()).toEqual(['a policy.put 10.1.0.2']);
});
