import { expect, test } from 'vitest';
import { egressGateways } from './gateways.ts';
import { type CallReplica, ReplicaError } from './replica.ts';

const replica = { key: 'start-1', address: '10.0.0.1', serving: true };
const about = { capsule_id: 'home', app_id: 'ledger', assistant_uid: 'u1' };
const narrow = { ...about, generation: 1, allowed_hosts: [], stored_inputs: {} };
const signal = new AbortController().signal;

test('a policy that a replica has is not sent again, and nothing is remembered of a removed Assistant', async () => {
  const asked: string[] = [];
  const call: CallReplica = async (_replica, operation) => {
    asked.push(operation);
    return { instance: 'start-1' } as never;
  };
  const gateways = egressGateways(() => [replica], call);
  await gateways.narrow(narrow, signal);
  await gateways.narrow(narrow, signal);
  expect([asked, gateways.settled(replica, about)]).toEqual([['policy.narrow'], true]);
  await gateways.remove(about, signal);
  expect(gateways.settled(replica, about)).toBeUndefined();
  await gateways.narrow(narrow, signal);
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
  expect((await egressGateways(() => [replica], earlier).narrow(moving, signal)).problem).toBeUndefined();
  expect(asked.splice(0)).toEqual([moving, narrow]);
  const refusing = call(() => {
    throw new ReplicaError('conflict');
  });
  expect((await egressGateways(() => [replica], refusing).narrow(moving, signal)).problem).toBeDefined();
  expect(asked).toEqual([moving]);
});

test('inputs that a gateway names but was not sent are ignored', async () => {
  const answer = { revision: 'r', reentry: ['bank', 's3cr3t-of-another'], resealed: {} };
  const gateways = egressGateways(
    () => [{ key: 'a', address: '127.0.0.1', serving: true }],
    (async () => answer) as never,
  );
  const about = { capsule_id: 'home', app_id: 'a', assistant_uid: 'u', revision: 'r' };
  const put = { ...about, stored_inputs: { bank: { definition: {}, envelope: 'e' } } };
  const { reentry } = await gateways.put(put as never, new AbortController().signal);
  expect(reentry).toEqual(['bank']);
});
