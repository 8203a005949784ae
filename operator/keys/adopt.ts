import { AUTHORITY } from './authority.ts';
import { materialsOf } from './materials.ts';
import type { Run } from './options.ts';
import { certificateSecret } from './renew.ts';

const KEEP = 'helm.sh/resource-policy';

/**
 * Runs before an upgrade from a chart that created the keys itself. Helm deletes objects that the new chart no longer
 * has, unless an annotation tells it to keep them.
 */
export async function adoptKeys(run: Run): Promise<void> {
  const { servicesNamespace: services, releaseNamespace: release } = run;
  const certificates = Object.entries(run.certificates?.services ?? {})
    .filter(([, { place }]) => place === 'services')
    .map(([service]) => certificateSecret(service));
  // No earlier chart has created the console's key.
  const materials = materialsOf({ ...run, console: false }).filter(({ value }) => !run.given.includes(value));
  for (const name of [
    ...materials.map(({ name }) => name),
    ...(run.certificates ? [AUTHORITY, ...certificates] : []),
  ])
    await adopt(run, 'Secret', services, name);
  for (const { name, places } of materials)
    if (places.includes('system')) await adopt(run, 'Secret', release, name);
  if (run.certificates)
    for (const namespace of [services, release]) await adopt(run, 'ConfigMap', namespace, AUTHORITY);
}

async function adopt(run: Run, kind: 'Secret' | 'ConfigMap', namespace: string, name: string): Promise<void> {
  const stored = await run.cluster.read(kind, namespace, name);
  if (stored === undefined || stored.annotations[KEEP] === 'keep') return;
  await run.cluster.change(kind, namespace, name, stored, { annotations: { [KEEP]: 'keep' } });
  run.tell('updated', `${namespace}/${name}`, 'Helm keeps it');
}
