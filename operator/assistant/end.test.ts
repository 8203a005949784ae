/** What the end of an Assistant waits for, and what it does not, before anything of a cluster is asked. */
import { BrokerError } from '@space/contracts/client';
import { describe, expect, it } from 'vitest';
import type { Context } from '../context.ts';
import type { Assistant, SecretObject } from '../kinds.ts';
import { ANNOTATION } from '../names.ts';
import { ApiError } from '../runtime/errors.ts';
import { manifest } from '../testing/manifest.ts';
import { names } from '../testing/names.ts';
import { settleData } from './data.ts';
import { takeAway } from './finalize.ts';

const signal = new AbortController().signal;
const assistant: Assistant = {
  metadata: { name: 'ledger', uid: 'one', deletionTimestamp: '2026-03-01T10:00:00Z' },
  spec: { capsule: 'household', image: 'x', manifest: manifest('ledger') },
};
const principal: SecretObject = {
  metadata: { name: 'capsule-household-database' },
  data: { principal: Buffer.from('spc_dbp_x').toString('base64') },
};
const DATABASE = { name: 'database broker', deployment: 'db-broker' };
const refusal = (status: number) =>
  new BrokerError(DATABASE, 'refused', `it answered ${status}`, { status, code: 'any' });

describe('the answer of a broker to a drop', () => {
  const settle = (dropApp: () => Promise<void>, capsule: object = {}) =>
    settleData(
      {
        names,
        client: { call: async () => principal },
        database: { dropApp },
        stores: { capsules: { get: () => ({ metadata: { name: 'household', ...capsule } }) } },
      } as unknown as Context,
      { assistant, id: 'ledger' },
      { token: undefined, retained: false } as Parameters<typeof settleData>[2],
      signal,
    );

  it('ends the drop when everything is dropped, and when nothing ever existed', async () => {
    expect(await settle(async () => {})).toBe('nothing');
    expect(await settle(() => Promise.reject(refusal(404)))).toBe('nothing');
  });

  it('holds the deletion when the broker refuses for another reason, and reports the reason', async () => {
    expect(await settle(() => Promise.reject(refusal(403)))).toMatchObject({
      finding: { status: 'False', reason: 'BrokerRefused' },
    });
  });

  it('with a refused principal leaves the drop to the end of the Capsule, which drops everything or says why it cannot', async () => {
    const going = { deletionTimestamp: '2026-03-01T10:00:00Z' };
    expect(await settle(() => Promise.reject(refusal(403)), going)).toBe('left to its Capsule');
    expect(await settle(() => Promise.reject(refusal(503)), going)).toMatchObject({
      finding: { reason: 'BrokerRefused' },
    });
  });
});

describe('files whose Capsule has lost its principal', () => {
  const settle = (status: string, reason: string) => {
    const conditions = [{ type: 'ObjectStoreReady', status, reason, message: '', lastTransitionTime: '' }];
    const missing = 'capsule-household-objectstore';
    return settleData(
      {
        names,
        client: {
          call: async ({ path }: { path: string }) => {
            if (path.endsWith(missing))
              throw new ApiError({ status: 404, reason: 'NotFound', message: 'none' });
            return principal;
          },
        },
        database: { dropApp: async () => {} },
        objectStore: { dropApp: async () => {} },
        stores: { capsules: { get: () => ({ metadata: { name: 'household' } }) } },
      } as unknown as Context,
      { assistant: { ...assistant, status: { conditions } } as Assistant, id: 'ledger' },
      { token: undefined, retained: false } as Parameters<typeof settleData>[2],
      signal,
    );
  };

  it.each([
    ['True', 'Ready'],
    ['False', 'GrantKeyUnusable'],
  ])('hold the deletion if the Assistant was registered: %s %s', async (status, reason) => {
    expect(await settle(status, reason)).toMatchObject({ finding: { reason: 'PrincipalLost' } });
  });

  it('hold nothing if it never was', async () => {
    expect(await settle('Unknown', 'Waiting')).toBe('nothing');
  });
});

describe('while a pod of the Assistant runs', () => {
  const own = { metadata: { name: 'ledger-1', annotations: { [ANNOTATION.owner]: 'one' } } };
  const none = { by: () => [] };
  const end = async (stores: object) => {
    const told: string[] = [];
    const context = {
      names,
      stores: {
        deployments: none,
        services: none,
        pods: none,
        roleBindings: { get: () => ({ metadata: {} }) },
        ...stores,
      },
      writer: { remove: async () => {} },
      appUsages: { forget: () => {} },
      gateways: { remove: async () => undefined },
      client: { call: () => Promise.reject(new Error('its Secrets are read')) },
    } as unknown as Context;
    const wait = async ({ reason }: { reason: string }) => void told.push(reason);
    const result = await takeAway(context, assistant, wait, signal).catch(({ message }: Error) => message);
    return { told, result };
  };

  it.each([
    ['a pod', { pods: { by: () => [own] } }],
    ['its Deployment', { deployments: { by: () => [own] } }],
  ])('nothing else is removed: %s', async (_, stores) => {
    expect(await end(stores)).toEqual({ told: ['PodsRemain'], result: {} });
  });

  it('removal continues with its Secrets when none runs, or only pods of others', async () => {
    const other = { ...own, metadata: { ...own.metadata, annotations: { [ANNOTATION.owner]: 'two' } } };
    for (const stores of [{}, { pods: { by: () => [other] } }])
      expect(await end(stores)).toEqual({ told: [], result: 'its Secrets are read' });
  });
});

describe('an Assistant whose manifest names another id than it has, and whose claim went with its namespace,', () => {
  const conditions = [
    { type: 'DatabaseReady', status: 'True', reason: 'Ready', message: '', lastTransitionTime: '' },
  ];
  const changed = {
    ...assistant,
    spec: { ...assistant.spec, manifest: manifest('books') },
    status: { conditions, manifest: { id: 'ledger', version: '1.0.0', digest: '' } },
  } as Assistant;
  const rival = { ...assistant, metadata: { name: 'rival', uid: 'two' } };
  /** What is done after the Secrets were read. */
  const end = (
    claims: Readonly<Record<string, readonly Assistant[]>>,
    lists: Readonly<Record<string, readonly Assistant[]>> = {},
  ) => {
    const none = { by: () => [] };
    const context = {
      names,
      stores: {
        ...{ deployments: none, services: none, pods: none },
        configMaps: {
          by: () => {
            throw new Error('the data stays');
          },
        },
        assistants: { by: (_index: string, claim: string) => claims[claim] ?? [] },
        capsules: { get: () => undefined },
        roleBindings: { get: () => ({ metadata: {} }) },
      },
      appUsages: { forget: () => {} },
      gateways: { remove: async () => undefined },
      client: {
        call: async ({ path }: { path: string }) => {
          const items = lists[path.slice(path.lastIndexOf('/') + 1)];
          if (items !== undefined) return { items };
          if (path.endsWith('/pods')) throw new Error('the data ends after the last pod');
          throw new ApiError({ status: 404, reason: 'NotFound', message: 'none' });
        },
      },
    } as unknown as Context;
    return takeAway(context, changed, async () => {}, signal).catch(({ message }: Error) => message);
  };

  it('ends the data of its own id, whoever claims the other', async () => {
    expect(await end({ 'household/books': [changed, rival] })).toBe('the data ends after the last pod');
  });

  it('leaves the data of its own id to one with that id that may have had it since', async () => {
    const had = { ...rival, status: { conditions } } as Assistant;
    expect(await end({ 'household/books': [changed], 'household/ledger': [had] })).toBe('the data stays');
  });

  it('ends the data of its own id, whoever waits for that', async () => {
    const waits = { 'household/books': [changed], 'household/ledger': [rival] };
    expect(await end(waits)).toBe('the data ends after the last pod');
  });

  it.each([
    ['none', []],
    ['another one', [{ ...rival, metadata: { name: 'ledger', uid: 'two' } }]],
  ])(
    'drops nothing once it is gone, though a store has it still, and there is %s of its name',
    async (_, found) => {
      expect(await end({}, { pods: [], capsules: [], assistants: found })).toEqual({});
    },
  );
});

describe('an Assistant that a replica of the gateway may still admit', () => {
  const owned = (name: string, owner: string) => ({
    metadata: { name, annotations: { [ANNOTATION.owner]: owner } },
    data: { DATABASE_URL: 'x' },
  });
  const HOUR = 3_600_000;
  /** What is done, and told, at the end of an Assistant whose removal the replicas in these pods have missed. */
  const end = async (pods: readonly string[], { graceMs = 0, owner = 'one' } = {}) => {
    const done: string[] = [];
    const told: string[] = [];
    const none = { by: () => [] };
    const now = Date.parse('2026-03-01T10:01:00Z');
    const lists: Record<string, readonly object[]> = { assistants: [assistant], capsules: [], pods: [] };
    const note = async (_: object, { metadata: { name } }: SecretObject) => void done.push(name);
    const context = {
      names: { ...names, graceMs },
      clocks: () => ({ own: now, steady: now, startedAt: 0 }),
      stores: {
        ...{ deployments: none, services: none, pods: none, configMaps: none },
        assistants: { by: () => [assistant] },
        capsules: { get: () => undefined },
        roleBindings: { get: () => ({ metadata: {} }) },
      },
      appUsages: { forget: () => {} },
      events: { record: () => {} },
      gateways: {
        async remove() {
          done.push('told');
          return pods.length === 0 ? undefined : { pods, problem: new Error('one is missing') };
        },
      },
      database: { dropApp: async () => void done.push('dropped') },
      writer: { remove: note, merge: note },
      log: { warn: () => {} },
      client: {
        call: async ({ path }: { path: string }) => {
          const last = path.slice(path.lastIndexOf('/') + 1);
          return last in lists ? { items: lists[last] } : { ...principal, ...owned(last, owner) };
        },
      },
    } as unknown as Context;
    const wait = async ({ reason, message }: { reason: string; message: string }) =>
      void told.push(`${reason} ${message}`);
    const result = await takeAway(context, assistant, wait, signal).catch(({ message }: Error) => message);
    return { done, told, result };
  };

  it.each([
    ['its data', 'one'],
    ['the data of another one', 'two'],
  ])('leaves everything as it is, %s included, and the condition names the replicas', async (_, owner) => {
    const many = Array.from({ length: 7 }, (_, at) => `egress-${at}`);
    for (const [pods, named] of [
      [['egress-1'], 'principal: egress-1. '],
      [many, 'egress-3, egress-4 and 2 more. '],
    ] as const)
      expect(await end(pods, { owner })).toEqual({
        done: ['told'],
        told: [expect.stringMatching(`^GatewayNotAcknowledged .*${named}`)],
        result: 'one is missing',
      });
  });

  it('is closed in its grace period all the same, and told again', async () => {
    expect(await end(['egress-1'], { graceMs: HOUR })).toEqual({
      done: ['told', 'ledger-objectstore', 'ledger-database'],
      told: [expect.stringMatching(/^RetentionGrace .*egress-1/)],
      result: 'one is missing',
    });
  });

  it('ends when all have acknowledged that', async () => {
    const { done, told } = await end([]);
    expect(done.slice(0, 4)).toEqual(['told', 'ledger-egress', 'egress-household.ledger', 'dropped']);
    expect(told).toEqual([]);
  });
});
