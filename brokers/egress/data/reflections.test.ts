import { randomBytes } from 'node:crypto';
import { Secret } from '@space/broker-kit';
import { parseKeyring } from '@space/broker-kit/custody';
import type { PolicyPut } from '@space/contracts/egress';
import { beforeEach, expect, it } from 'vitest';
import { createCustody } from '../custody.ts';
import { Policies } from '../policies/policies.ts';
import { ownerOf } from '../policies/tenant.ts';
import { digest } from '../testing/gateway.ts';
import { Reflections } from './reflections.ts';

/** A value that its host returned, while the operator exchanges the key that values are sealed with. */

const [k1, k2] = [1, 2].map(() => randomBytes(32).toString('base64url'));
const ringOf = (primary: string) => parseKeyring(JSON.stringify({ primary, keys: { k1, k2 } }));
const VALUE = new Secret('sk_live_4eC39HqLyjWDarjtT1zdp7dc');
const ANOTHER = new Secret('sk_live_another_value_of_it');

const about = { capsule_id: 'home', app_id: 'ledger', assistant_uid: 'uid-1' };
type Definition = PolicyPut['stored_inputs'][string]['definition'];
const definition: Definition = {
  host: 'api.bank.org',
  routes: [{ method: 'GET', path: '/v1' }],
  header: 'X-Api-Key',
};
const owner = ownerOf(about, 'bank', definition);

let ring = ringOf('k1');
const custody = createCustody('test', () => ring);
let policies: Policies;
let reflections: Reflections;

beforeEach(() => {
  ring = ringOf('k1');
  policies = new Policies(custody);
  reflections = new Reflections(2, () => undefined);
});

const put = (envelope: string) =>
  policies.put({
    ...about,
    generation: 1,
    revision: digest('1'),
    principals: [digest('own')],
    addresses: ['10.1.0.1'],
    allowed_hosts: [],
    stored_inputs: { bank: { definition, envelope } },
  });
const now = () => {
  const tenant = policies.of(about)!;
  return [tenant, tenant.inputs.get('bank')!] as const;
};
const suspended = () => reflections.isSuspended(...now());

it('stays suspended when it is sealed again with the next key, by this replica or by another', async () => {
  await put(await custody.seal(owner, VALUE));
  reflections.count(...now());
  ring = ringOf('k2');
  await put(await custody.seal(owner, VALUE));
  expect(suspended()).toBe(false);
  reflections.count(...now());
  expect(suspended()).toBe(true);
  ring = ringOf('k1');
  const { resealed } = await put(now()[1].envelope);
  for (let n = 0; n < 2; n += 1) {
    await put(resealed['bank']!);
    expect(suspended()).toBe(true);
  }
});

it('is used again once somebody enters a value, that one or another', async () => {
  await put(await custody.seal(owner, VALUE));
  for (let n = 0; n < 2; n += 1) reflections.count(...now());
  expect(suspended()).toBe(true);
  ring = ringOf('k2');
  await put(await custody.seal(owner, ANOTHER));
  expect(suspended()).toBe(false);
  for (let n = 0; n < 2; n += 1) reflections.count(...now());
  expect(suspended()).toBe(true);
  await put(await custody.seal(owner, ANOTHER));
  expect(suspended()).toBe(false);
});
