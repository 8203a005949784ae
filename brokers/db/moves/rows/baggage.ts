/** Rows about a Capsule that are copied from one registry to another. */
import type { Session } from '@space/broker-kit/postgres';

/**
 * The tables with rows about one Capsule, each copied as JSON without interpretation. Audit entries stay where they
 * were written.
 */
const TABLES = ['capsule', 'database', 'capsule_limits', 'retired_principal'] as const;
export type Baggage = Readonly<Record<(typeof TABLES)[number], string>>;

export async function packRows(session: Session, capsule: string): Promise<Baggage> {
  const columns = TABLES.map(
    (table) =>
      `(SELECT coalesce(jsonb_agg(to_jsonb(t)), '[]')::text FROM broker.${table} t WHERE capsule_id = $1) AS ${table}`,
  );
  const [row] = await session.read<Baggage>('pack rows', `SELECT ${columns.join(', ')}`, [capsule]);
  if (row === undefined) throw new Error('an aggregate without a row');
  return row;
}

/** Inserts the rows from another server; their databases are registered from now on. */
export async function unpackRows(session: Session, capsule: string, baggage: Baggage): Promise<void> {
  for (const table of TABLES)
    await session.run(
      `unpack ${table}`,
      `INSERT INTO broker.${table} SELECT * FROM jsonb_populate_recordset(NULL::broker.${table}, $1::jsonb)
       ${table === 'retired_principal' ? 'ON CONFLICT DO NOTHING' : ''}`,
      [baggage[table]],
    );
  await session.run(
    'forget arriving databases',
    'DELETE FROM broker.arriving_database WHERE capsule_id = $1',
    [capsule],
  );
}
