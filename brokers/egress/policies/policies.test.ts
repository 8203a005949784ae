import { Secret } from '@space/broker-kit';
import type { PolicyPut } from '@space/contracts/egress';
import { definitionDigest } from '@space/manifests';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { type Custody, createCustody, passingKeyring } from '../custody.ts';
import { digest } from '../testing/gateway.ts';
import { Policies, plainAddress } from './policies.ts';
import type { OpenConnection, Tenant } from './tenant.ts';

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
const definition: Sealed['definition'] = {
  host: 'api.bank.org',
  routes: [{ method: 'GET', path: '/v1' }],
  header: 'X-Api-Key',
};
const own = (): Tenant | undefined => policies.of(about);
const OTHER = { capsule_id: 'office', app_id: 'desk', assistant_uid: 'uid-2' };

const VALUE = 'sk_live_4eC39HqLyjWDarjtT1zdp7dc';
const sealed = (envelope: string, key = 'bank') => ({ [key]: { definition, envelope } });
/** A connection of the Assistant that lasts until its policy no longer permits it. */
function connect(tenant: Tenant, permitted: () => boolean) {
  const connection = { index: -1, permitted, called: () => undefined, end: vi.fn() };
  tenant.connections.add(connection satisfies OpenConnection);
  return connection;
}

let custody: Custody;
let policies: Policies;
let sealing: PromiseWithResolvers<void>;

beforeEach(() => {
  const ring = passingKeyring();
  const real = createCustody('test', () => ring);
  sealing = Promise.withResolvers();
  sealing.resolve();
  custody = {
    ...real,
    open: () => new Secret(VALUE),
    // As while the operator retires a key, when each message has a newly sealed value.
    isOld: () => true,
    seal: async (...about) => {
      await sealing.promise;
      return real.seal(...about);
    },
  };
  policies = new Policies(custody);
});

describe('the policies of a replica', () => {
  it('keep the later of two messages of one generation, although the earlier one took longer', async () => {
    sealing = Promise.withResolvers();
    const earlier = policies.put(put({ allowed_hosts: ['gone.org'], stored_inputs: sealed('k0:x') }));
    await policies.put(put({ revision: digest('2'), allowed_hosts: ['kept.org'], addresses: ['10.1.0.2'] }));
    sealing.resolve();
    await expect(earlier).rejects.toMatchObject({ code: 'conflict' });
    const tenant = policies.find(digest('own'), '10.1.0.2');
    expect([...(tenant?.hosts ?? [])]).toEqual(['kept.org']);
    expect(policies.find(digest('own'), '10.1.0.1')).toBeUndefined();
  });

  it('keep a restriction that arrived while an earlier message was processed', async () => {
    sealing = Promise.withResolvers();
    await policies.put(put({ allowed_hosts: ['a.org', 'b.org'] }));
    const earlier = policies.put(put({ allowed_hosts: ['a.org', 'b.org'], stored_inputs: sealed('k0:x') }));
    policies.narrow({ ...about, generation: 1, allowed_hosts: ['a.org'], stored_inputs: {} });
    sealing.resolve();
    await expect(earlier).rejects.toMatchObject({ code: 'conflict' });
    expect([...(policies.find(digest('own'), '10.1.0.1')?.hosts ?? [])]).toEqual(['a.org']);
  });

  it('do not accept a principal for a second Assistant', async () => {
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

  it('know the owner of an address, also while one pod ends and another gets it', async () => {
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

describe('an Assistant', () => {
  it('is found by its principal together with one of its addresses, and by its names together with its UID', async () => {
    await policies.put(put());
    const tenant = policies.find(digest('own'), '10.1.0.1');
    expect(tenant).toMatchObject({ capsule: 'home', app: 'ledger', uid: 'uid-1' });
    expect(policies.find(digest('own'), '10.1.0.2')).toBeUndefined();
    expect(policies.find(digest('other'), '10.1.0.1')).toBeUndefined();
    expect(policies.of(about)).toBe(tenant);
    expect(policies.of({ ...about, assistant_uid: 'uid-9' })).toBeUndefined();
    expect(policies.of({ ...about, app_id: 'other' })).toBeUndefined();
    expect(policies.size).toBe(1);
  });

  it('has what its last message contains and nothing of the previous one', async () => {
    await policies.put(put({ allowed_hosts: ['a.org'], stored_inputs: sealed('k1:a') }));
    await policies.put(
      put({ generation: 2, revision: digest('2'), principals: [digest('new')], allowed_hosts: ['b.org'] }),
    );
    expect(own()).toMatchObject({ generation: 2, revision: digest('2'), principals: [digest('new')] });
    expect([...own()!.hosts]).toEqual(['b.org']);
    expect(own()!.inputs.size).toBe(0);
    expect(policies.find(digest('own'), '10.1.0.1')).toBeUndefined();
    expect(policies.find(digest('new'), '10.1.0.1')).toBe(own());
  });

  it('keeps its own principals in each further message', async () => {
    const both = [digest('own'), digest('next')];
    await policies.put(put());
    await policies.put(put({ principals: both }));
    for (const principal of both) expect(policies.find(principal, '10.1.0.1')?.capsule).toBe('home');
  });

  it.each([
    ['widens', 'put', () => policies.put(put({ allowed_hosts: ['a.org'] }))],
    [
      'narrows',
      'narrow',
      async () => policies.narrow({ ...about, generation: 1, allowed_hosts: [], stored_inputs: {} }),
    ],
  ])('is not changed by a message of an older generation that %s it', async (_, _name, message) => {
    await policies.put(put({ generation: 2, allowed_hosts: ['kept.org'] }));
    await expect(message()).rejects.toMatchObject({ code: 'stale_generation' });
    expect([...own()!.hosts]).toEqual(['kept.org']);
  });

  it('that was created again under its name has nothing of the earlier one, whose connections end', async () => {
    await policies.put(put({ generation: 7, allowed_hosts: ['a.org'] }));
    const earlier = own()!;
    const connection = connect(earlier, () => earlier.hosts.has('a.org'));
    await policies.put(put({ assistant_uid: 'uid-2', principals: [digest('new')], addresses: ['10.1.0.9'] }));
    expect(connection.end).toHaveBeenCalledOnce();
    expect(own()).toBeUndefined();
    expect(policies.find(digest('own'), '10.1.0.1')).toBeUndefined();
    expect(policies.capsuleAt('10.1.0.1')).toBeUndefined();
    expect(policies.find(digest('new'), '10.1.0.9')).toMatchObject({ uid: 'uid-2', generation: 1 });
    expect(policies.size).toBe(1);
  });

  it('needs its value again if that cannot be decrypted, or is no longer valid', async () => {
    custody.isOld = () => false;
    for (const [value, reentry] of [
      [VALUE, []],
      ['short', ['bank']],
      [undefined, ['bank']],
    ] as const) {
      custody.open = () => (value === undefined ? undefined : new Secret(value));
      const taken = await policies.put(put({ stored_inputs: sealed('k1:a') }));
      expect(taken).toEqual({ revision: digest('1'), reentry, resealed: {} });
      expect(own()!.inputs.get('bank')?.usable).toBe(reentry.length === 0);
      expect([...policies.keysInUse()]).toEqual(reentry.length === 0 ? ['k1'] : []);
    }
  });

  it('has a value sealed again only if it is usable and its key is to be retired', async () => {
    const seal = vi.spyOn(custody, 'seal');
    custody.isOld = (envelope) => envelope === 'k0:old';
    const stored = { ...sealed('k0:old', 'old'), ...sealed('k1:new', 'new') };
    const { resealed } = await policies.put(put({ stored_inputs: stored }));
    expect(resealed).toEqual({ old: expect.stringMatching(/^k1:/) });
    for (const unusable of [undefined, new Secret('short')]) {
      custody.open = () => unusable;
      expect((await policies.put(put({ stored_inputs: sealed('k0:old') }))).resealed).toEqual({});
    }
    expect(seal).toHaveBeenCalledOnce();
  });

  it('loses by a restriction what that does not name, and gains nothing but the addresses of its pods', async () => {
    custody.isOld = () => false;
    const stored = { ...sealed('k1:a', 'kept'), ...sealed('k1:b', 'gone'), ...sealed('k1:c', 'changed') };
    await policies.put(put({ allowed_hosts: ['a.org', 'b.org'], stored_inputs: stored }));
    const { digest: kept } = own()!.inputs.get('kept')!;
    const narrowed = policies.narrow({
      ...{ ...about, generation: 3, allowed_hosts: ['b.org', 'c.org'] },
      stored_inputs: { kept, changed: digest('another'), added: kept },
    });
    expect(narrowed).toBe(true);
    expect([...own()!.hosts]).toEqual(['b.org']);
    expect([...own()!.inputs.keys()]).toEqual(['kept']);
    expect(own()!.generation).toBe(3);
    // With addresses it follows the pods, and without them it stays where it is.
    const same = { ...about, generation: 3, allowed_hosts: ['b.org'], stored_inputs: { kept } };
    policies.narrow({ ...same, addresses: ['::ffff:10.1.0.8'] });
    expect(policies.find(digest('own'), '10.1.0.1')).toBeUndefined();
    policies.narrow(same);
    expect(policies.find(digest('own'), '10.1.0.8')).toMatchObject({ hosts: new Set(['b.org']) });
    const unknown = { ...OTHER, generation: 1, allowed_hosts: [], stored_inputs: {} };
    expect(policies.narrow(unknown)).toBe(false);
  });
});

describe('a restriction with what the running pods were given', () => {
  const running = (changes: Partial<PolicyPut> = {}) => {
    const { revision, principals, allowed_hosts, stored_inputs } = put(changes);
    return { revision, principals, allowed_hosts, stored_inputs };
  };
  const kept = definitionDigest(definition);

  it('begins with that where there is no policy, and with nothing that it does not permit itself', () => {
    const stored = { ...sealed('k1:a', 'kept'), ...sealed('k1:b', 'gone'), ...sealed('k1:c', 'changed') };
    const narrowed = policies.narrow({
      ...{ ...about, generation: 3, allowed_hosts: ['b.org', 'c.org'], addresses: ['10.1.0.8'] },
      stored_inputs: { kept, changed: digest('another'), added: kept },
      running: running({ allowed_hosts: ['a.org', 'b.org'], stored_inputs: stored }),
    });
    expect(narrowed).toBe(true);
    expect(policies.find(digest('own'), '10.1.0.8')).toBe(own());
    expect(own()).toMatchObject({ generation: 3, revision: digest('1'), hosts: new Set(['b.org']) });
    expect([...own()!.inputs.values()]).toMatchObject([{ key: 'kept', usable: true }]);
  });

  it('adds nothing to a policy that is there, however little that permits', async () => {
    await policies.put(put({ allowed_hosts: ['a.org'] }));
    const given = running({ allowed_hosts: ['a.org', 'b.org'], stored_inputs: sealed('k1:a') });
    const message = {
      ...about,
      generation: 1,
      allowed_hosts: ['a.org', 'b.org'],
      stored_inputs: { bank: kept },
    };
    policies.narrow({ ...message, running: given });
    expect([own()!.hosts, own()!.inputs.size]).toEqual([new Set(['a.org']), 0]);
    policies.narrow({ ...message, allowed_hosts: [], running: given });
    policies.narrow({ ...message, running: given });
    expect(own()!.hosts).toEqual(new Set());
  });

  it('begins with nothing of an Assistant that was removed, under the name or with the principal of another', async () => {
    const message = { generation: 1, allowed_hosts: ['a.org'], stored_inputs: {} };
    const given = running({ allowed_hosts: ['a.org'] });
    await policies.put(put());
    const again = { ...about, assistant_uid: 'uid-9' };
    expect(
      policies.narrow({ ...again, ...message, running: { ...given, principals: [digest('new')] } }),
    ).toBe(false);
    expect(() => policies.narrow({ ...OTHER, ...message, running: given })).toThrow('principal of another');
    expect([policies.size, own()?.hosts.size]).toEqual([1, 0]);
    policies.remove(about);
    expect(() => policies.narrow({ ...about, ...message, running: given })).toThrow('removed');
    expect(policies.size).toBe(0);
  });

  it('has no value that cannot be decrypted', () => {
    custody.open = () => undefined;
    const given = running({ stored_inputs: sealed('k1:a') });
    policies.narrow({
      ...about,
      generation: 1,
      allowed_hosts: [],
      stored_inputs: { bank: kept },
      running: given,
    });
    expect(own()!.inputs.get('bank')).toMatchObject({ usable: false });
  });
});

describe('a change of a policy', () => {
  it.each([
    ['a message', () => policies.put(put())],
    ['a narrowing', () => policies.narrow({ ...about, generation: 1, allowed_hosts: [], stored_inputs: {} })],
    ['a removal', () => policies.remove(about)],
  ])(
    'by %s ends what is no longer permitted and nothing else, and wakes waiting callers',
    async (_, change) => {
      await policies.put(put({ allowed_hosts: ['a.org'] }));
      const tenant = own()!;
      const permitted = connect(tenant, () => true);
      const ended = connect(tenant, () => tenant.hosts.has('a.org'));
      const [woken, asleep] = [vi.fn(), vi.fn()];
      policies.watch(woken);
      policies.watch(asleep)();
      await change();
      expect(ended.end).toHaveBeenCalledOnce();
      expect(permitted.end).not.toHaveBeenCalled();
      expect(woken).toHaveBeenCalled();
      expect(asleep).not.toHaveBeenCalled();
    },
  );

  it('ends everything when the replica ends', async () => {
    await policies.put(put());
    const connection = connect(own()!, () => true);
    policies.endAll();
    expect(connection.end).toHaveBeenCalledOnce();
  });
});

describe('a removed Assistant', () => {
  it('is not restored by a late message', async () => {
    await policies.put(put());
    expect(policies.remove(about)).toBe(true);
    expect(policies.size).toBe(0);
    await expect(policies.put(put({ generation: 9 }))).rejects.toMatchObject({ code: 'conflict' });
    expect(() =>
      policies.narrow({ ...about, generation: 9, allowed_hosts: [], stored_inputs: {} }),
    ).toThrow();
    expect(policies.find(digest('own'), '10.1.0.1')).toBeUndefined();
  });

  it('leaves nothing of its addresses behind', async () => {
    const set = vi.spyOn(Map.prototype, 'set');
    await policies.put(put());
    const at = set.mock.calls.findIndex(([key]) => key === '10.1.0.1');
    const addresses = set.mock.contexts[at] as Map<string, unknown>;
    set.mockRestore();
    expect([...addresses.keys()]).toEqual(['10.1.0.1']);
    policies.remove(about);
    expect([...addresses.keys()]).toEqual([]);
  });

  it('does not affect the one that was created again under its name', async () => {
    await policies.put(put({ assistant_uid: 'uid-2' }));
    expect(policies.remove(about)).toBe(false);
    expect(policies.find(digest('own'), '10.1.0.1')?.uid).toBe('uid-2');
  });

  it('is remembered until ten thousand others were removed', async () => {
    policies.remove(about);
    for (let index = 1; index < 10_000; index += 1)
      policies.remove({ ...about, assistant_uid: `gone-${index}` });
    await expect(policies.put(put())).rejects.toMatchObject({ code: 'conflict' });
    policies.remove({ ...about, assistant_uid: 'one-more' });
    await policies.put(put());
    expect(own()).toBeDefined();
    await expect(policies.put(put({ assistant_uid: 'one-more' }))).rejects.toMatchObject({
      code: 'conflict',
    });
  });
});

it('a replica is up to date once the operator has confirmed it, and not before', () => {
  expect(policies.inStep).toBe(false);
  policies.markInStep();
  expect(policies.inStep).toBe(true);
});

it('an IPv4 address is the same however a listener reports it, and no other is changed', () => {
  for (const [told, plain] of [
    ['::ffff:10.1.0.1', '10.1.0.1'],
    ['::FFFF:10.1.0.1', '10.1.0.1'],
    ['10.1.0.1', '10.1.0.1'],
    ['::ffff:a01:1', '::ffff:a01:1'],
    ['fd00::ffff:10.1.0.1', 'fd00::ffff:10.1.0.1'],
  ] as const)
    expect(plainAddress(told)).toBe(plain);
});
