import { expect, it } from 'vitest';
import type { KubeObject } from '../space/kube-object.ts';
import { notRestored } from './missing.ts';

const object = (kind: string, name: string, spec: object): KubeObject => ({
  apiVersion: 'platform.space/v1',
  kind,
  metadata: { name, namespace: 'home' },
  spec,
});
const assistant = (name: string, capsule: string, more = {}) =>
  object('Assistant', name, { capsule, manifest: { platform: { id: `${name}-id` } }, ...more });
const taken = '2026-11-21T10:30:00.000Z';
const state = {
  space: 'home',
  namespaces: { release: 'home', system: 'home-system', services: 'home-services' },
  taken,
  objects: [
    object('Capsule', 'household', {}),
    object('Capsule', 'cabin', {}),
    {
      ...object('Capsule', 'loft', {}),
      metadata: {
        name: 'loft',
        namespace: 'home',
        annotations: { 'platform.space/restoring': 'loft as of then' },
      },
    },
    object('Capsule', 'barn', {}),
    assistant('ledger', 'household'),
    assistant('hay', 'barn'),
    assistant('mail', 'cabin', { storedInputs: { post: { secretKeyRef: { name: 'gone', key: 'value' } } } }),
  ],
};

it('reports what a backup of a whole Space does not contain', () => {
  const told = notRestored({
    state,
    at: '2026-11-21T12:00:00.000Z',
    notice: 'a point is missing',
    registered: [
      { capsule: 'household', apps: ['', 'ledger-id', 'later'] },
      { capsule: 'cabin', apps: [''] },
      { capsule: 'attic', apps: ['', 'old'] },
    ],
    unknown: [{ capsule: 'shed', broker: 'db-broker' }],
    setBack: ['cabin'],
    accepted: ['household'],
    beside: [
      { capsule: 'cabin', server: 'b' },
      { capsule: 'loft', server: 'b' },
    ],
    lost: ['barn'],
    moves: ['the move of Capsule cabin to b, which was under way: it was undone'],
  });
  expect(told).toEqual([
    expect.stringMatching(/^databases on server b, .*as they are there \(Capsules cabin, loft\)$/),
    expect.stringContaining('databases of Capsule barn: its server does not have them'),
    expect.stringContaining('the move of Capsule cabin'),
    expect.stringContaining('Capsule attic: its data was restored'),
    expect.stringContaining('Assistant later in Capsule household: its database was restored'),
    expect.stringContaining('the database of mail-id in Capsule cabin: there was none'),
    expect.stringContaining('the principal of Capsule shed: db-broker had no such Capsule'),
    expect.stringContaining('S3 credential sets of Capsule cabin'),
    expect.stringMatching(/^the data of Capsule loft: .*\(loft as of then\).*no pods/),
    expect.stringContaining('stored input post of mail: Secret gone did not exist'),
    `changes to the specs of Capsules and Assistants after ${taken}`,
    'objects: a point is missing',
    expect.stringContaining('URLs, tokens and principals'),
    expect.stringContaining('installed and approved Assistants'),
    expect.stringContaining('no stored inputs'),
  ]);
});

it('for a complete backup reports only what is never restored', () => {
  const registered = [
    { capsule: 'household', apps: ['', 'ledger-id'] },
    { capsule: 'cabin', apps: ['', 'mail-id'] },
  ];
  const { objects, ...rest } = state;
  const whole = {
    ...rest,
    objects: objects.filter(({ metadata }) => !['mail', 'loft', 'barn', 'hay'].includes(metadata.name)),
  };
  const told = notRestored({
    ...{ state: whole, at: undefined, notice: undefined },
    ...{
      registered: registered.map((one) => ({ ...one, apps: one.apps.filter((app) => app !== 'mail-id') })),
    },
    ...{ unknown: [], setBack: [], accepted: [], beside: [], lost: [], moves: [] },
  });
  expect(told).toHaveLength(3);
});
