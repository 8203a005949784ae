import { Secret } from '@space/broker-kit';
import type { PolicyPut } from '@space/contracts/egress';
import { beforeEach, describe, expect, it } from 'vitest';
import { type Custody, createCustody, passingKeyring } from '../custody.ts';
import { digest } from '../testing/gateway.ts';
import { Policies } from './policies.ts';

const about = { capsule_id: 'home', app_id: 'ledger', assistant_uid: 'uid-1' };
const put = (changes: Partial<PolicyPut> = {}): PolicyPut => ({
  ...about,
  generation: 1,
  revision: digest('1'),
  principals: [digest('own')],
  addresses: ['10.1.0.1'],
  allowed_hosts: [],
  stored_inputs: {},
  ...changes,
});
type Sealed = PolicyPut['stored_inputs'][string];
const OTHER = { capsule_id: 'office', app_id: 'desk', assistant_uid: 'uid-2' };

let custody: Custody;
let policies: Policies;
let sealing: PromiseWithResolvers<void>;

beforeEach(() => {
  const ring = passingKeyring();
  const real = createCustody('test', () => ring);
  sealing = Promise.withResolvers();
  custody = {
    ...real,
    open: () => new Secret('sk_live_4eC39HqLyjWDarjtT1zdp7dc'),
    // As while the operator retires a key: each put seals anew, which takes its time.
    isOld: () => true,
    seal: async (...about) => {
      await sealing.promise;
      return real.seal(...about);
    },
  };
  policies = new Policies(custody);
});

describe('the policies of a replica', () => {
  it('keep the later of two messages of one generation, though the earlier one took longer', async () => {
    const definition: Sealed['definition'] = {
      host: 'api.bank.org',
      routes: [{ method: 'GET', path: '/v1' }],
      header: 'X-Api-Key',
    };
    const earlier = policies.put(
      put({ allowed_hosts: ['gone.org'], stored_inputs: { bank: { definition, envelope: 'k0:x' } } }),
    );
    await policies.put(put({ revision: digest('2'), allowed_hosts: ['kept.org'], addresses: ['10.1.0.2'] }));
    sealing.resolve();
    await expect(earlier).rejects.toMatchObject({ code: 'conflict' });
    const tenant = policies.find(digest('own'), '10.1.0.2');
    expect([...(tenant?.hosts ?? [])]).toEqual(['kept.org']);
    expect(policies.find(digest('own'), '10.1.0.1')).toBeUndefined();
  });

  it('keep what was narrowed while an earlier message was at work', async () => {
    const definition: Sealed['definition'] = {
      host: 'a.org',
      routes: [{ method: 'GET', path: '/' }],
      query: 'k',
    };
    await policies.put(put({ allowed_hosts: ['a.org', 'b.org'] }));
    const earlier = policies.put(
      put({ allowed_hosts: ['a.org', 'b.org'], stored_inputs: { bank: { definition, envelope: 'k0:x' } } }),
    );
    policies.narrow({ ...about, generation: 1, allowed_hosts: ['a.org'], stored_inputs: {} });
    sealing.resolve();
    await expect(earlier).rejects.toMatchObject({ code: 'conflict' });
    expect([...(policies.find(digest('own'), '10.1.0.1')?.hosts ?? [])]).toEqual(['a.org']);
  });

  it('give no principal to a second Assistant', async () => {
    await policies.put(put());
    await expect(policies.put(put(OTHER))).rejects.toMatchObject({ code: 'conflict' });
    expect(policies.find(digest('own'), '10.1.0.1')?.capsule).toBe('home');
    policies.remove(about);
    await policies.put(put(OTHER));
    expect(policies.find(digest('own'), '10.1.0.1')?.capsule).toBe('office');
  });

  it('know a pod by its addresses of both families', async () => {
    await policies.put(put({ addresses: ['10.1.0.7', 'fd00:10:1::7'] }));
    for (const at of ['10.1.0.7', 'fd00:10:1::7'])
      expect(policies.find(digest('own'), at)?.capsule).toBe('home');
    expect(policies.find(digest('own'), 'fd00:10:1::8')).toBeUndefined();
  });

  it('tell whose an address is, also while one pod goes and another has got it', async () => {
    await policies.put(put({ addresses: ['::ffff:10.1.0.1', '10.1.0.2'] }));
    await policies.put(put({ ...OTHER, principals: [digest('other')], addresses: ['10.1.0.2'] }));
    expect(['10.1.0.1', '10.1.0.2', '10.1.0.3'].map((at) => policies.capsuleAt(at))).toEqual([
      'home',
      'home',
      undefined,
    ]);
    await policies.put(put({ addresses: ['10.1.0.1'] }));
    expect(policies.capsuleAt('10.1.0.2')).toBe('office');
    policies.remove(about);
    policies.remove(OTHER);
    expect(['10.1.0.1', '10.1.0.2'].map((at) => policies.capsuleAt(at))).toEqual([undefined, undefined]);
  });
});
