import { expect, it } from 'vitest';
import type { Page } from '../http/outcome.ts';
import { type Ask, KubernetesError } from '../kubernetes/client.ts';
import { UNSEEN } from '../machinery/machinery.ts';
import type { Visit } from '../visit.ts';
import { changeQuota } from './change-quota.ts';

it('a limit that somebody else changes between the look and the write is not overwritten', async () => {
  let [version, database] = [1, '1Gi'];
  let looks = 0;
  const visit = {
    names: { space: 'home', namespace: 'home', systemNamespace: 'home-system', servicesNamespace: 'x' },
    session: { formKey: 'x', user: 'mia' },
    ...{ params: { capsule: 'household' }, query: new URLSearchParams(), now: () => new Date(0) },
    form: new Map([
      ['database', '2Gi'],
      ['seen-database', '1Gi'],
    ]),
    may: async ({ resource }: { resource: string }) => resource === 'capsules',
    list: async () => ({ rows: [], isCut: false }),
    machineryOf: async () => UNSEEN,
    ask: async ({ method = 'GET', body }: Ask) => {
      const now = {
        metadata: { name: 'household', resourceVersion: `${version}` },
        spec: { quota: { database } },
      };
      if (method === 'GET') {
        looks += 1;
        if (looks === 1) [version, database] = [2, '8Gi'];
        return now;
      }
      const patch = body as { metadata: { resourceVersion: string }; spec: { quota: { database: string } } };
      if (patch.metadata.resourceVersion !== `${version}`)
        throw new KubernetesError(409, 'Conflict', 'older');
      database = patch.spec.quota.database;
      return now;
    },
  };
  const page = (await changeQuota.run(visit as unknown as Visit)) as Page;
  expect([page.status, database]).toEqual([409, '8Gi']);
  expect(page.main.toString()).toContain('Somebody else has set this to 8Gi');
});
