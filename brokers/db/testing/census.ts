import { intoDatabase, query } from './postgres.ts';

/** Asks the registry as superuser, by whatever way there is to it. */
export type AskRegistry = <Row extends Record<string, unknown>>(statement: string) => Promise<Row[]>;

const registryAt =
  (superuserUrl: string): AskRegistry =>
  (statement) =>
    query(intoDatabase(superuserUrl, 'space_registry'), statement);

/** What must never be, in sentences; empty when server and registry agree about everything of ours. */
export const census = (superuserUrl: string) => censusBy(registryAt(superuserUrl));

export async function censusBy(ask: AskRegistry): Promise<string[]> {
  const [facts] = await ask<{ problems: string[] }>(
    `WITH
       server AS (SELECT datname::text AS name, datallowconn AS open, datconnlimit AS slots FROM pg_database
                  WHERE starts_with(datname, 'spc_')),
       roles AS (SELECT rolname::text AS name, rolcanlogin AS login FROM pg_roles WHERE starts_with(rolname, 'spc_')),
       rows AS (SELECT name, state, capsule_id || '/' || app_id AS workload FROM broker.database),
       problems AS (
         SELECT 'ready without an open database: ' || workload AS problem FROM rows
           WHERE state = 'ready' AND NOT EXISTS (SELECT FROM server s WHERE s.name = rows.name AND open AND slots > 0)
         UNION ALL SELECT 'ready without a role: ' || workload FROM rows
           WHERE state = 'ready' AND NOT EXISTS (SELECT FROM roles r WHERE r.name = rows.name AND login)
         UNION ALL SELECT 'dropping but open: ' || workload FROM rows
           WHERE state = 'dropping' AND (EXISTS (SELECT FROM server s WHERE s.name = rows.name AND open AND slots > 0)
             OR EXISTS (SELECT FROM roles r WHERE r.name = rows.name AND login))
         UNION ALL SELECT 'dropped but there: ' || workload FROM rows
           WHERE state = 'dropped' AND (name IN (SELECT name FROM server) OR name IN (
             SELECT name FROM roles WHERE login OR name NOT IN (SELECT name FROM broker.leftover_role)))
         UNION ALL SELECT 'role of nobody: ' || name FROM roles
           WHERE name NOT IN (SELECT name FROM rows WHERE state <> 'dropped')
             AND (login OR name NOT IN (SELECT name FROM broker.leftover_role))
         UNION ALL SELECT 'database of nobody: ' || name FROM server
           WHERE name NOT IN (SELECT name FROM rows WHERE state <> 'dropped') AND name !~ '_(spare|template)_'
         UNION ALL SELECT 'spare that is open: ' || name FROM server WHERE name ~ '_(spare|template)_' AND open
         UNION ALL SELECT 'databases of a Capsule that is gone: ' || capsule_id FROM broker.capsule c
           WHERE c.state IN ('retired', 'finalized') AND EXISTS (
             SELECT FROM broker.database d WHERE d.capsule_id = c.capsule_id AND d.state <> 'dropped')
         UNION ALL SELECT 'live Capsule without its own database: ' || capsule_id FROM broker.capsule c
           WHERE c.state = 'active' AND NOT EXISTS (
             SELECT FROM broker.database d WHERE d.capsule_id = c.capsule_id AND d.app_id = '' AND d.state = 'ready')
       )
     SELECT coalesce(array_agg(problem), '{}') AS problems FROM problems`,
  );
  return facts?.problems ?? ['no census'];
}

/** Spares on the server that are not in the pool: what a killed broker may leave, until a round adopts them. */
export const straySpares = (superuserUrl: string) => straySparesBy(registryAt(superuserUrl));

export async function straySparesBy(ask: AskRegistry): Promise<number> {
  const [row] = await ask<{ count: number }>(
    `SELECT count(*)::int AS count FROM pg_database
     WHERE datname ~ '^spc_[0-9a-f]{8}_spare_' AND datname NOT IN (SELECT name FROM broker.spare)`,
  );
  return row?.count ?? 0;
}
