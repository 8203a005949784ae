import { expect, it } from 'vitest';
import type { Page } from '../http/outcome.ts';
import { UNSEEN } from '../machinery/machinery.ts';
import type { Visit } from '../visit.ts';
import { repairs } from './repairs.ts';
import { sandbox } from './sandbox.ts';

const node = { name: 'sound', sandbox: 'there', handlers: [], kubelet: '', runtime: '' } as const;

const shown = async ({ run }: typeof sandbox, isCut: boolean) => {
  const visit = {
    names: { space: 'home', namespace: 'home', systemNamespace: 'home-system', servicesNamespace: 'x' },
    ask: async () => ({ items: [] }),
    list: async () => [],
    machineryOf: async () => ({ ...UNSEEN, nodes: { items: [node], isCut } }),
  };
  return ((await run(visit as unknown as Visit)) as Page).main.toString();
};

it.each([sandbox, repairs])('$path says that it does not show all of a list', async (route) => {
  const says = /There are more than 10,000.* The others are not (?:shown|examined) here\./;
  expect(await shown(route, true)).toMatch(says);
  expect(await shown(route, false)).not.toMatch(says);
});
