import { expect, test } from 'vitest';
import { egressGateways } from './gateways.ts';
import type { CallReplica } from './replica.ts';

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
