import { readFileSync } from 'node:fs';
import type { Client } from 'pg';

/**
 * Turns a registry into that of an older broker: its schema is created by that broker's own statements, and the existing rows are
 * kept without the columns that were added later.
 */
export async function makeOlder(
  superuser: Pick<Client, 'query'>,
  { file, version, owner }: { readonly file: URL; readonly version: number; readonly owner: string },
): Promise<void> {
  const ask = (text: string) => superuser.query<{ table: string; columns: string }>(text);
  await ask('BEGIN');
  await ask(`ALTER SCHEMA broker RENAME TO newer; SET LOCAL ROLE ${owner}; CREATE SCHEMA broker`);
  await ask(
    'CREATE TABLE broker.migration (version integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())',
  );
  await ask(readFileSync(file, 'utf8'));
  await ask(`INSERT INTO broker.migration SELECT generate_series(1, ${version})`);
  // Rows are inserted in the order of their creation, so that referenced rows exist.
  const { rows } = await ask(
    `SELECT c.relname AS table, string_agg(quote_ident(a.attname), ', ') AS columns
     FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
     WHERE c.relnamespace = 'broker'::regnamespace AND c.relkind = 'r' AND c.relname <> 'migration'
     GROUP BY c.oid, c.relname ORDER BY c.oid`,
  );
  for (const { table, columns } of rows)
    await ask(
      `INSERT INTO broker.${table} (${columns}) OVERRIDING SYSTEM VALUE SELECT ${columns} FROM newer.${table}`,
    );
  await ask(
    "SELECT setval(pg_get_serial_sequence('broker.audit', 'id'), (SELECT coalesce(max(id), 1) FROM broker.audit))",
  );
  await ask('DROP SCHEMA newer CASCADE; COMMIT');
}

/** The schema of a registry: all columns of all tables, with their constraints. */
export async function schemaOf(superuser: Pick<Client, 'query'>): Promise<string[]> {
  const { rows } = await superuser.query<{ line: string }>(
    `SELECT c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END
       || coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '') AS line
     FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
     LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
     WHERE c.relnamespace = 'broker'::regnamespace AND c.relkind = 'r'
     UNION ALL SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
       WHERE connamespace = 'broker'::regnamespace
     UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'broker'
     UNION ALL SELECT pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
       WHERE c.relnamespace = 'broker'::regnamespace AND NOT t.tgisinternal
     ORDER BY 1`,
  );
  return rows.map(({ line }) => line);
}
