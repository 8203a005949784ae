/** The registry as a value: what one committed transaction makes of it. */

import type { LoggedRow, Transaction } from '../../../../testing/postgres/pgoutput.ts';
import type { CapsuleRow } from '../../../kit/principals/decide.ts';
import type { DatabaseRow } from '../../core/decide.ts';

export interface Capsule extends Omit<CapsuleRow, 'principal'> {
  readonly principal: string | null;
}

export interface Database extends DatabaseRow {
  readonly capsule: string;
  readonly app: string;
}

export interface Audit {
  readonly operation: string;
  readonly capsule: string;
  readonly app: string;
  readonly outcome: string;
}

export interface Registry {
  readonly capsules: ReadonlyMap<string, Capsule>;
  /** By Capsule and application, as `databaseKey` spells it. */
  readonly databases: ReadonlyMap<string, Database>;
  /** Principals that never come again. */
  readonly retired: ReadonlySet<string>;
  /** Every name that a database ever had. */
  readonly names: ReadonlySet<string>;
}

export interface Change<Row> {
  readonly key: string;
  readonly before: Row | undefined;
  readonly after: Row | undefined;
}

/** What one transaction did, each row from its state before to its state after. */
export interface Committed {
  readonly capsules: readonly Change<Capsule>[];
  readonly databases: readonly Change<Database>[];
  readonly retired: readonly string[];
  readonly audits: readonly Audit[];
}

export const emptyRegistry = (): Registry => ({
  capsules: new Map(),
  databases: new Map(),
  retired: new Set(),
  names: new Set(),
});

export const databaseKey = (capsule: string, app: string) => `${capsule}/${app}`;

export function committedOf({ changes }: Pick<Transaction, 'changes'>): Committed {
  const of = (table: string) => changes.filter((change) => change.table === table);
  const added = (table: string) => of(table).flatMap(({ after }) => (after ? [after] : []));
  return {
    capsules: folded(of('capsule'), ({ capsule_id }) => text(capsule_id), capsuleOf),
    databases: folded(
      of('database'),
      ({ capsule_id, app_id }) => databaseKey(text(capsule_id), text(app_id)),
      databaseOf,
    ),
    retired: added('retired_principal').map(({ principal }) => text(principal)),
    audits: added('audit').map(({ operation, capsule_id, app_id, outcome }) => ({
      ...{ operation: text(operation), capsule: text(capsule_id) },
      ...{ app: text(app_id), outcome: text(outcome) },
    })),
  };
}

/** Several changes of one row in one transaction are one. */
function folded<Row>(
  changes: Transaction['changes'],
  keyOf: (row: LoggedRow) => string,
  read: (row: LoggedRow) => Row,
): Change<Row>[] {
  const found = new Map<string, Change<Row>>();
  for (const { before, after } of changes) {
    const row = after ?? before;
    if (row === undefined) continue;
    const key = keyOf(row);
    const first = found.get(key);
    const from = first === undefined ? before && read(before) : first.before;
    found.set(key, { key, before: from, after: after && read(after) });
  }
  return [...found.values()];
}

const text = (value: string | null | undefined) => value ?? '';

function capsuleOf({ state, life, principal }: LoggedRow): Capsule {
  return { state: state as Capsule['state'], incarnation: Number(life), principal: principal ?? null };
}

function databaseOf(row: LoggedRow): Database {
  return {
    ...{ capsule: text(row['capsule_id']), app: text(row['app_id']), name: text(row['name']) },
    state: row['state'] as Database['state'],
    ...{ incarnation: Number(row['life']), generation: Number(row['generation']) },
    ...{ epoch: text(row['epoch']), keyId: text(row['key_id']) },
    ...{ rotationDue: row['rotation_due'] === 't', evicting: row['evicting'] === 't' },
    closed: row['closed'] === 't',
  };
}

/** The registry after a transaction. The collections are the caller's own, and are changed. */
export function applied(registry: Registry, { capsules, databases, retired }: Committed): Registry {
  const next = {
    capsules: registry.capsules as Map<string, Capsule>,
    databases: registry.databases as Map<string, Database>,
    retired: registry.retired as Set<string>,
    names: registry.names as Set<string>,
  };
  const put = <Row>(map: Map<string, Row>, { key, after }: Change<Row>) =>
    after === undefined ? map.delete(key) : map.set(key, after);
  for (const change of capsules) put(next.capsules, change);
  for (const change of databases) {
    put(next.databases, change);
    if (change.after !== undefined) next.names.add(change.after.name);
  }
  for (const principal of retired) next.retired.add(principal);
  return next;
}
