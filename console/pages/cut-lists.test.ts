import { expect, it } from 'vitest';
import type { Page } from '../http/outcome.ts';
import { KubernetesError } from '../kubernetes/client.ts';
import { UNSEEN } from '../machinery/machinery.ts';
import type { Visit } from '../visit.ts';
import { capsule } from './capsule.ts';
import { capsules } from './capsules.ts';
import { repairs } from './repairs.ts';
import { sandbox } from './sandbox.ts';

const node = { name: 'sound', sandbox: 'there', handlers: [], kubelet: '', runtime: '' } as const;

const shown = async ({ run }: typeof sandbox, isCut: boolean) => {
  const visit = {
    names: { space: 'home', namespace: 'home', systemNamespace: 'home-system', servicesNamespace: 'x' },
    ask: async () => ({ items: [] }),
    list: async () => ({ rows: [], isCut: false }),
    machineryOf: async () => ({ ...UNSEEN, nodes: { items: [node], isCut } }),
  };
  return ((await run(visit as unknown as Visit)) as Page).main.toString();
};

it.each([sandbox, repairs])('$path says that it does not show all of a list', async (route) => {
  const says = /There are more than 10,000.* The others are not (?:shown|examined) here\./;
  expect(await shown(route, true)).toMatch(says);
  expect(await shown(route, false)).not.toMatch(says);
});

it.each([capsules, capsule, repairs])('$path says that a list has more rows than are read', async (route) => {
  const shownOf = async (isCut: boolean) => {
    const visit = {
      names: { space: 'home', namespace: 'home', systemNamespace: 'home-system', servicesNamespace: 'x' },
      session: { formKey: 'x' },
      ...{ form: new Map(), query: new URLSearchParams(), params: { capsule: 'household' } },
      ask: async () => ({ metadata: { name: 'household' }, spec: {} }),
      may: async () => false,
      list: async () => ({ rows: [{ name: 'one', capsule: 'household', ready: 'True' }], isCut }),
      machineryOf: async () => UNSEEN,
    };
    return ((await route.run(visit as unknown as Visit)) as Page).main.toString();
  };
  const says = /There are more than 20,000 .* in this Space. The others are not (?:shown|examined) here\./;
  expect(await shownOf(true)).toMatch(says);
  expect(await shownOf(false)).not.toMatch(says);
});

it.each([50, 51])(
  'the Capsules of a person who may not list them, among %s, are said to be all or not',
  async (count) => {
    const rows = Array.from({ length: count }, (_, index) => ({ capsule: `capsule-${index}` }));
    const visit = {
      names: { space: 'home', namespace: 'home' },
      may: async ({ name }: { name?: string }) => name === 'capsule-7',
      list: async (path: string) => {
        if (path.endsWith('/capsules')) throw new KubernetesError(403, 'Forbidden', '');
        return { rows, isCut: false };
      },
    };
    const main = ((await capsules.run(visit as unknown as Visit)) as Page).main.toString();
    expect(main).toContain('href="/capsules/capsule-7"');
    expect(
      main.includes('There are more than 50 Capsules with Assistants. The others are not shown here'),
    ).toBe(count > 50);
  },
);
