import type { Fields } from '@space/contracts/objectstore';
import type { CredentialClient } from '../../credentials/testing/byok.ts';
import type { Custody } from '../custody.ts';

export interface Revocation {
  readonly requests: number;
  /** Requests that began after a change was answered and still saw what was before it. */
  readonly stale: number;
  readonly changes: Readonly<Record<'rotate' | 'select' | 'delete' | 'create', number>>;
}

/**
 * Changes a Capsule's credentials again and again while every replica resolves them as a request would, and compares
 * what each request saw with what had been answered when it began.
 */
export async function checkRevocation(options: {
  readonly capsule: string;
  readonly own: CredentialClient;
  readonly fields: Fields;
  readonly replicas: readonly Custody[];
  readonly wanted: number;
}): Promise<Revocation> {
  const { capsule, own, fields, replicas, wanted } = options;
  const changes = { rotate: 0, select: 0, delete: 0, create: 0 };
  let [answered, requests, stale, stop] = [0, 0, 0, false];
  const gone = new Set<string>();

  const readers = replicas.flatMap((custody) =>
    [1, 2, 3].map(async () => {
      while (!stop) {
        const [known, deleted] = [answered, new Set(gone)];
        const inventory = await custody.read(capsule, async () => 1);
        const { selected, sets, generation } = inventory;
        if (generation < known || sets.some(({ setId }) => deleted.has(setId))) stale += 1;
        if (selected !== null) await custody.reveal(inventory, selected);
        requests += 1;
      }
    }),
  );
  const done = async (what: keyof typeof changes, call: ReturnType<CredentialClient['select']>) => {
    const reply = await call;
    if (reply.status !== 200) throw new Error(`${what}: ${reply.text}`);
    answered = reply.json.inventory_generation;
    changes[what] += 1;
    return reply.json;
  };
  try {
    const { set_id } = await done('create', own.create('kept', fields, 0));
    let generation = 1;
    while (requests < wanted) {
      await done('select', own.select(set_id, answered));
      generation = (await done('rotate', own.rotate(set_id, fields, generation))).generation;
      const other = (await done('create', own.create('other', fields, answered))).set_id;
      await done('select', own.select(null, answered));
      await done('delete', own.delete(other, 1));
      gone.add(other);
    }
  } finally {
    stop = true;
    await Promise.all(readers);
  }
  return { requests, stale, changes };
}
