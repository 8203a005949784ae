import { type CallState, type Ending, MOST_CALLS, type Calls as Told } from '@space/contracts/egress';
import type { LiveInput, Tenant } from '../policies/tenant.ts';

type Row = Told['calls'][number];
interface Counted {
  readonly row: Omit<Row, 'count' | 'last_at'>;
  count: number;
  lastAt: number;
}
interface Table {
  readonly known: Map<string, Counted>;
  readonly others: Map<string, Counted>;
  forgotten: number;
}

interface Call {
  readonly tenant?: Tenant | undefined;
  readonly host?: string | undefined;
  readonly refusedHost?: string | undefined;
  readonly input?: Pick<LiveInput, 'key' | 'host'> | undefined;
  readonly code: Ending;
}

/**
 * Counts each Assistant's calls by host in bounded tables in memory. Refused hosts can be chosen freely by the
 * Assistant, so they have a table of their own, in which the oldest row makes room for a new one.
 */
export class Calls {
  readonly #now: () => number;
  readonly #since: number;
  readonly #tables = new WeakMap<Tenant, Table>();

  constructor(now: () => number) {
    this.#now = now;
    this.#since = now();
  }

  count({ tenant, host, refusedHost, input, code }: Call): void {
    if (tenant === undefined) return;
    const table = this.#tables.get(tenant) ?? { known: new Map(), others: new Map(), forgotten: 0 };
    this.#tables.set(tenant, table);
    const isKnown = input !== undefined || host !== undefined;
    const rows = isKnown ? table.known : table.others;
    const called = input?.host ?? host ?? refusedHost;
    const key = `${called} ${input?.key} ${code}`;
    let counted = rows.get(key);
    if (counted === undefined) {
      table.forgotten += evictOldest(rows, isKnown ? MOST_CALLS.known : MOST_CALLS.others);
      counted = { row: rowOf(called, input?.key, code), count: 0, lastAt: 0 };
      rows.set(key, counted);
    }
    counted.count += 1;
    counted.lastAt = this.#now();
  }

  of(tenant: Tenant | undefined): Pick<Told, 'calls' | 'forgotten' | 'since'> {
    const table = tenant && this.#tables.get(tenant);
    const rows = [...(tenant === undefined ? [] : this.#openOf(tenant)), ...(table?.known.values() ?? [])];
    rows.push(...(table?.others.values() ?? []));
    return {
      calls: rows.map(({ row, count, lastAt }) => ({ ...row, count, last_at: timeOf(lastAt) })),
      forgotten: table?.forgotten ?? 0,
      since: timeOf(this.#since),
    };
  }

  /** The open connections: a tunnel that has not ended is in no count yet. */
  #openOf({ connections }: Tenant): readonly Counted[] {
    const rows = new Map<string, Counted>();
    for (const connection of connections.snapshot()) {
      const called = connection.called();
      const key = `${called?.host} ${called?.key}`;
      const known = rows.get(key);
      if (known !== undefined) known.count += 1;
      else if (called !== undefined && rows.size < MOST_CALLS.open)
        rows.set(key, { row: rowOf(called.host, called.key, 'open'), count: 1, lastAt: this.#now() });
    }
    return [...rows.values()];
  }
}

const timeOf = (ms: number) => new Date(ms).toISOString();

const rowOf = (host: string | undefined, input: string | undefined, ending: CallState): Counted['row'] => ({
  ...(host === undefined ? {} : { host }),
  ...(input === undefined ? {} : { input }),
  ending,
});

/** Removes the row with the oldest last call if the table is full; returns the number of its calls. */
function evictOldest(rows: Map<string, Counted>, most: number): number {
  if (rows.size < most) return 0;
  let [oldest] = rows;
  for (const row of rows) if (oldest === undefined || row[1].lastAt < oldest[1].lastAt) oldest = row;
  if (oldest === undefined) return 0;
  rows.delete(oldest[0]);
  return oldest[1].count;
}
