/** The custody's tables as the registry's log makes them, and a Capsule's inventory in them. */
import type { LoggedRow, Transaction } from '../../../../../../testing/postgres/pgoutput.ts';
import type { StoredInventory } from '../../inventory.ts';
import { parseInventory } from '../../rows.ts';

export const TABLES = ['credential_inventory', 'credential_set', 'audit'];

const NUMBERS = new Set([
  ...['life', 'generation', 'revision', 'high'],
  ...['form_version', 'verified_at', 'created_at', 'rotated_at'],
]);

/** As the database would tell it in JSON. */
function told(row: LoggedRow): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name,
      value !== null && NUMBERS.has(name) ? Number(value) : value,
    ]),
  );
}

export class Image {
  readonly #inventories = new Map<string, LoggedRow>();
  readonly #sets = new Map<string, Map<string, LoggedRow>>();

  /** The Capsules whose rows a transaction changed. */
  take({ changes }: Transaction): Set<string> {
    const touched = new Set<string>();
    for (const { table, before, after } of changes) {
      const row = after ?? before;
      const capsule = row?.['capsule_id'];
      if (row === undefined || typeof capsule !== 'string' || table === 'audit') continue;
      touched.add(capsule);
      if (table === 'credential_inventory') put(this.#inventories, capsule, after);
      else put(this.#setsOf(capsule), row['set_id'] ?? '', after);
    }
    return touched;
  }

  inventoryOf(capsule: string): StoredInventory | undefined {
    const row = this.#inventories.get(capsule);
    if (row === undefined) return undefined;
    const sets = [...this.#setsOf(capsule).values()].map((set) => {
      const { capsule_id: _, ...rest } = told(set);
      return rest;
    });
    const inventory = parseInventory({ ...told(row), sets });
    if (inventory === undefined) throw new Error(`rows of ${capsule} are none of ours`);
    return inventory;
  }

  #setsOf(capsule: string): Map<string, LoggedRow> {
    const known = this.#sets.get(capsule) ?? new Map<string, LoggedRow>();
    this.#sets.set(capsule, known);
    return known;
  }
}

function put(rows: Map<string, LoggedRow>, key: string, row: LoggedRow | undefined): void {
  if (row === undefined) rows.delete(key);
  else rows.set(key, row);
}
