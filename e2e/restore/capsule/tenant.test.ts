import { describe, expect, it } from 'vitest';
import type { KubeObject } from '../../space/kube-object.ts';
import type { State } from '../state.ts';
import { notRestored } from './missing.ts';
import type { Files } from './queries.ts';
import { idOf, isSuspended, renamed, tenantIn, withoutSuspend } from './tenant.ts';

const release = 'home';
const object = (kind: string, name: string, more: object): KubeObject => ({
  apiVersion: kind === 'Secret' ? 'v1' : 'platform.space/v1',
  kind,
  metadata: { name, namespace: release },
  ...more,
});
const assistant = (name: string, capsule: string, inputs: Record<string, string> = {}) =>
  object('Assistant', name, {
    spec: {
      capsule,
      manifest: { platform: { id: name } },
      storedInputs: Object.fromEntries(
        Object.entries(inputs).map(([key, secret]) => [
          key,
          { secretKeyRef: { name: secret, key: 'value' } },
        ]),
      ),
    },
  });
const input = (name: string, capsule: string, annotations?: object) =>
  object('Secret', name, {
    type: 'platform.space/stored-input',
    metadata: {
      ...{ name, namespace: release, labels: { 'platform.space/capsule': capsule, by: 'me' } },
      ...(annotations === undefined ? {} : { annotations }),
    },
    data: { value: 'eA==' },
  });
const state: State = {
  space: 'home',
  namespaces: { release, system: 'home-system', services: 'home-services' },
  taken: '2026-11-21T10:30:00.000Z',
  objects: [
    object('Secret', 'db-admin', { metadata: { name: 'db-admin', namespace: 'home-services' } }),
    input('bank', 'household', { 'platform.space/open': 'true' }),
    input('mail', 'cabin'),
    object('Capsule', 'household', {
      metadata: {
        name: 'household',
        namespace: release,
        annotations: { 'platform.space/rotate': '3', 'platform.space/open': 'true', note: 'mine' },
      },
      spec: { suspend: true, quota: { assistants: 2 } },
    }),
    object('Capsule', 'cabin', { spec: {} }),
    assistant('ledger', 'household', { bank: 'bank', post: 'gone' }),
    assistant('other', 'cabin', { mail: 'mail' }),
  ],
};
const names = (objects: readonly KubeObject[]) => objects.map(({ metadata }) => metadata.name);

describe('a Capsule in a state', () => {
  it('consists of itself, its Assistants and what people entered for them', () => {
    const { capsule, assistants, inputs } = tenantIn(state, 'household');
    expect([names([capsule]), names(assistants), names(inputs)]).toEqual([
      ['household'],
      ['ledger'],
      ['bank'],
    ]);
    // Annotations that asked for one action are not restored.
    expect(capsule.metadata.annotations).toEqual({ note: 'mine' });
    expect(assistants.map(idOf)).toEqual(['ledger']);
  });

  it('is missing, and the existing ones are named', () => {
    expect(() => tenantIn(state, 'attic')).toThrow(
      /of 2026-11-21.* no Capsule attic. It has: household, cabin\./,
    );
    expect(() => tenantIn({ ...state, objects: [] }, 'attic')).toThrow(/It has: none/);
  });

  it('is not suspended, since an object that is created suspended gets no database and files', () => {
    const { capsule } = tenantIn(state, 'household');
    expect([isSuspended(capsule), isSuspended(withoutSuspend(capsule))]).toEqual([true, false]);
    expect(withoutSuspend(capsule)['spec']).toEqual({ quota: { assistants: 2 } });
  });
});

describe('a Capsule under another name', () => {
  const attic = renamed(tenantIn(state, 'household'), 'attic');

  it('has Assistants and stored inputs of its own, and the ids by which these have their data', () => {
    expect(attic.capsule.metadata.name).toBe('attic');
    expect(names(attic.assistants)).toEqual(['attic-ledger']);
    expect(attic.assistants.map(idOf)).toEqual(['ledger']);
    expect(attic.assistants[0]?.['spec'].capsule).toBe('attic');
    expect(attic.inputs).toEqual([
      {
        ...input('bank', 'household'),
        metadata: {
          name: 'attic-bank',
          namespace: release,
          labels: { 'platform.space/capsule': 'attic', by: 'me' },
        },
      },
    ]);
  });

  it('is bound to the Secrets that come with it, and else to what it was bound to', () => {
    expect(attic.assistants[0]?.['spec'].storedInputs).toEqual({
      bank: { secretKeyRef: { name: 'attic-bank', key: 'value' } },
      post: { secretKeyRef: { name: 'gone', key: 'value' } },
    });
  });
});

it('reports what a backup does not contain', () => {
  const files: Files = { place: 'c/1/', apps: { ledger: 'c/1/a/1/', later: 'c/1/a/2/' }, sets: 2 };
  const told = notRestored({
    tenant: tenantIn(state, 'household'),
    taken: state.taken,
    at: '2026-11-21T12:00:00.000Z',
    databases: [
      { app: '', name: 'spc_0' },
      { app: 'later', name: 'spc_1' },
    ],
    files,
    notice: 'a point is missing',
  });
  for (const says of [
    'the database of later: the state of 2026-11-21T10:30:00.000Z has no such Assistant',
    'the files of later: the state',
    'the database of ledger: there was none at that moment',
    'stored input post of ledger: Secret gone did not exist',
    '2 S3 credential sets of its own',
    'changes to the specs of the Capsule and its Assistants after 2026-11-21T10:30:00.000Z',
    'objects: a point is missing',
    'URLs, tokens and principals',
  ])
    expect(told).toContainEqual(expect.stringContaining(says));
});
