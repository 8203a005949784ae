/** What a server's catalogues say of who may do what, as one would draw it. */
import { intoDatabase, query } from './postgres.ts';

/** Returns each role's attributes, then the roles that it is a member of. */
export async function rolesOf(superuserUrl: string): Promise<Record<string, string>> {
  const rows = await query<{ name: string; says: string }>(
    superuserUrl,
    `SELECT r.rolname::text AS name, concat_ws(' ',
       CASE WHEN rolcanlogin THEN 'LOGIN' END, CASE WHEN rolsuper THEN 'SUPERUSER' END,
       CASE WHEN rolcreaterole THEN 'CREATEROLE' END, CASE WHEN rolcreatedb THEN 'CREATEDB' END,
       CASE WHEN rolreplication THEN 'REPLICATION' END, CASE WHEN rolbypassrls THEN 'BYPASSRLS' END,
       CASE WHEN rolinherit THEN 'INHERIT' END, CASE WHEN rolconnlimit <> -1 THEN rolconnlimit || ' connections' END,
       CASE WHEN rolpassword IS NULL THEN 'no password' END,
       CASE WHEN rolvaliduntil <> 'infinity' THEN 'until ' || rolvaliduntil END,
       (SELECT 'in ' || string_agg(pg_get_userbyid(m.roleid) || CASE WHEN admin_option THEN ' as admin' ELSE '' END, ', '
                                   ORDER BY pg_get_userbyid(m.roleid))
        FROM pg_auth_members m WHERE m.member = r.oid AND pg_get_userbyid(m.roleid) LIKE 'pg\\_%')) AS says
     FROM pg_authid r WHERE rolname <> 'postgres' AND rolname NOT LIKE 'pg\\_%' ORDER BY 1`,
  );
  return Object.fromEntries(rows.map(({ name, says }) => [name, says]));
}

/** Returns each database's owner, whether and how many may connect, and who may do what in it; `-` is PUBLIC. */
export async function databasesOf(superuserUrl: string): Promise<Record<string, string>> {
  const rows = await query<{ name: string; says: string }>(
    superuserUrl,
    `SELECT datname::text AS name, concat_ws(' ', CASE WHEN NOT datallowconn THEN 'shut' END,
       CASE WHEN datconnlimit <> -1 THEN datconnlimit || ' connections' END, 'of ' || pg_get_userbyid(datdba) || ':',
       (SELECT string_agg(holder || ' ' || rights, '; ' ORDER BY holder)
        FROM (SELECT CASE a.grantee WHEN 0 THEN '-' ELSE pg_get_userbyid(a.grantee)::text END AS holder,
                     string_agg(a.privilege_type || CASE WHEN a.is_grantable THEN ' to give' ELSE '' END, ', '
                                ORDER BY a.privilege_type) AS rights
              FROM aclexplode(coalesce(datacl, acldefault('d', datdba))) a
              WHERE a.grantee <> datdba GROUP BY 1) held)) AS says
     FROM pg_database ORDER BY 1`,
  );
  return Object.fromEntries(rows.map(({ name, says }) => [name, says]));
}

/** What is set for roles, and in which database. */
export async function settingsOf(superuserUrl: string): Promise<readonly string[]> {
  const rows = await query<{ says: string }>(
    superuserUrl,
    `SELECT concat_ws(' ', array_to_string(setconfig, ', '), 'of',
       CASE setrole WHEN 0 THEN 'everybody' ELSE pg_get_userbyid(setrole)::text END,
       'in ' || (SELECT datname FROM pg_database d WHERE d.oid = setdatabase)) AS says
     FROM pg_db_role_setting ORDER BY 1`,
  );
  return rows.map(({ says }) => says);
}

/** Returns who may do what in the public schema of a database. */
export async function publicSchemaOf(superuserUrl: string, database: string): Promise<string> {
  const [row] = await query<{ acl: string }>(
    intoDatabase(superuserUrl, database),
    `SELECT nspacl::text AS acl FROM pg_namespace WHERE nspname = 'public'`,
  );
  return row?.acl ?? 'no public schema';
}
