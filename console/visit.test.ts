import { Secret } from '@space/broker-kit';
import { expect, it } from 'vitest';
import type { Kubernetes } from './kubernetes/client.ts';
import { KeptLists } from './kubernetes/kept-lists.ts';
import { UNSEEN } from './machinery/machinery.ts';
import { visit } from './visit.ts';

it('a person who may act on all objects but not on this one may not: the authorizer is asked with the name', async () => {
  const kubernetes: Kubernetes = {
    ask: async (_, { body }) => {
      const { spec } = body as { spec: { resourceAttributes: { name?: string } } };
      return { status: { allowed: spec.resourceAttributes.name === undefined } };
    },
    follow: async () => {
      throw new Error('nothing is watched');
    },
    close: async () => undefined,
  };
  const proof = { token: new Secret('x') };
  const { may } = visit({ kubernetes, lists: new KeptLists(kubernetes) }, proof, {
    session: { id: 'x', proof, user: 'x', formKey: 'x', ends: 0 },
    names: {
      space: 'home',
      namespace: 'home',
      systemNamespace: 's',
      servicesNamespace: 'v',
      hasObjectStore: true,
    },
    form: new Map(),
    now: () => new Date(0),
    params: {},
    query: new URLSearchParams(),
    callsOf: undefined,
    machineryOf: async () => UNSEEN,
  });
  const all = { group: 'platform.space', resource: 'capsules', namespace: 'home', verb: 'credentials' };
  expect(await may(all)).toBe(true);
  expect(await may({ ...all, name: 'household' })).toBe(false);
});
