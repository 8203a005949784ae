import type { Stored } from './cluster.ts';
import { labelsOf, type Run } from './options.ts';

/** ConfigMap that names the Secrets which were created or found. */
const RECORD = 'space-keys';
/** The same on a volume that holds data encrypted with them, since the volume may be restored without the ConfigMap. */
const RECORD_ANNOTATION = 'platform.space/keys';
/**
 * Volumes of PostgreSQL and the S3 server in the services namespace. A Space that has changed to servers of somebody else's
 * may still have them: what they record counts, and nothing new is recorded there.
 */
const VOLUMES = ['data-postgres-0', 'data-s3-0'] as const;

/** Records which keys existed: what was encrypted with one of them is lost if it is replaced. */
export interface Record {
  /** Where it is recorded that the key existed, in words for a person; empty if nowhere. */
  promisedBy(name: string): readonly string[];
  /** Adds the keys that exist now; removes nothing. */
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
        if (!run.volumes.includes(claim)) continue;
        const all = [...new Set([...listed(stored), ...names])].toSorted();
        if (all.length === listed(stored).length) continue;
        const annotations = { [RECORD_ANNOTATION]: all.join() };
        await cluster.change('PersistentVolumeClaim', namespace, claim, stored, { annotations });
      }
    },
  };
}
