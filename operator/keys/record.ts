import type { Stored } from './cluster.ts';
import { labelsOf, type Run } from './options.ts';

/** ConfigMap that names the Secrets which were made or found. */
const RECORD = 'space-keys';
/** The same on a volume that was filled with them, which may come back without the ConfigMap. */
const RECORD_ANNOTATION = 'platform.space/keys';
/** PostgreSQL's and the S3 server's, in the services' namespace. */
const VOLUMES = ['data-postgres-0', 'data-s3-0'] as const;

/** Which keys there were once: what was stored by one of them is lost if another is made in its place. */
export interface Record {
  /** Where it is written that there was one, as a person would name it; empty if nowhere. */
  promisedBy(name: string): readonly string[];
  /** Adds what there is now; takes nothing out. */
  add(names: readonly string[]): Promise<void>;
}

export async function readRecord({ cluster, servicesNamespace: namespace, ...run }: Run): Promise<Record> {
  const record = await cluster.read('ConfigMap', namespace, RECORD);
  const volumes = new Map<string, Stored>();
  for (const name of VOLUMES) {
    const volume = await cluster.read('PersistentVolumeClaim', namespace, name);
    if (volume !== undefined) volumes.set(name, volume);
  }
  const listed = (stored: Stored) => (stored.annotations[RECORD_ANNOTATION] ?? '').split(',').filter(Boolean);
  return {
    promisedBy(name) {
      const volume = [...volumes].filter(([, stored]) => listed(stored).includes(name));
      return [
        ...(record !== undefined && name in record.data ? [`ConfigMap ${namespace}/${RECORD}`] : []),
        ...volume.map(([claim]) => `annotation ${RECORD_ANNOTATION} of volume claim ${namespace}/${claim}`),
      ];
    },
    async add(names) {
      const missing = names.filter((name) => !(name in (record?.data ?? {})));
      const data = Object.fromEntries(missing.map((name) => [name, 'kept']));
      if (record === undefined)
        await cluster.create('ConfigMap', namespace, RECORD, {
          data,
          labels: labelsOf({ ...run, servicesNamespace: namespace }),
        });
      else if (missing.length > 0) await cluster.change('ConfigMap', namespace, RECORD, record, { data });
      for (const [claim, stored] of volumes) {
        const all = [...new Set([...listed(stored), ...names])].toSorted();
        if (all.length === listed(stored).length) continue;
        const annotations = { [RECORD_ANNOTATION]: all.join() };
        await cluster.change('PersistentVolumeClaim', namespace, claim, stored, { annotations });
      }
    },
  };
}
