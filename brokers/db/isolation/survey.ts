import type { Session } from '@space/broker-kit/postgres';
import type { Isolation } from './drift.ts';

/**
 * Reads the isolation of every registered workload, or of one, in one statement on shared catalogues. Workloads that
 * are being moved to another server are left out, since their state is what the move requires.
 */
export function surveyIsolation(
  session: Session,
  name?: string,
): Promise<(Isolation & { capsule: string; app: string })[]> {
  return session.read(
    'survey isolation',
    `SELECT w.capsule_id AS capsule, w.app_id AS app, w.name, w.closed, w.evicting,
       coalesce(q.door, 'open') AS door, q.connections,
       CASE WHEN r.oid IS NOT NULL THEN json_build_object(
         'login', r.rolcanlogin, 'inherit', r.rolinherit, 'limit', r.rolconnlimit,
         'powers', array_remove(ARRAY[
           CASE WHEN r.rolsuper THEN 'NOSUPERUSER' END, CASE WHEN r.rolcreatedb THEN 'NOCREATEDB' END,
           CASE WHEN r.rolcreaterole THEN 'NOCREATEROLE' END, CASE WHEN r.rolreplication THEN 'NOREPLICATION' END,
           CASE WHEN r.rolbypassrls THEN 'NOBYPASSRLS' END], NULL),
         'expires', r.rolvaliduntil IS NOT NULL AND r.rolvaliduntil <> 'infinity') END AS role,
       ARRAY(SELECT pg_get_userbyid(m.roleid)::text FROM pg_auth_members m WHERE m.member = r.oid) AS "memberOf",
       ARRAY(SELECT pg_get_userbyid(m.member)::text FROM pg_auth_members m
             WHERE m.roleid = r.oid AND pg_get_userbyid(m.member) <> current_user) AS members,
       CASE WHEN d.oid IS NOT NULL THEN json_build_object(
         'invalid', d.datconnlimit = -2, 'open', d.datallowconn, 'limit', d.datconnlimit,
         'ours', pg_get_userbyid(d.datdba) = current_user,
         'grants', ARRAY(
           SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee)::text END
                  || ':' || string_agg(a.privilege_type, ',' ORDER BY a.privilege_type)
           FROM aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
           WHERE a.grantee <> d.datdba GROUP BY a.grantee)) END AS database
     FROM broker.database w
     LEFT JOIN broker.capsule_limits q ON q.capsule_id = w.capsule_id
     LEFT JOIN pg_roles r ON r.rolname = w.name
     LEFT JOIN pg_database d ON d.datname = w.name
     WHERE w.state = 'ready' AND ($1::text IS NULL OR w.name = $1)
       AND NOT EXISTS (SELECT FROM broker.departure x WHERE x.capsule_id = w.capsule_id)`,
    [name ?? null],
  );
}
