import { ConfigError } from '@space/broker-kit';
import { type Connections, REFUSED } from '@space/broker-kit/postgres';
import { judgeSettings, REQUIREMENTS } from './settings.ts';

/** The settings and objects of the server that its owner is responsible for, read in one statement. */
export interface ServerFacts {
  /** The broker's role. */
  readonly role: string;
  readonly version: number;
  readonly standby: boolean;
  /** A server may refuse writes though it is not a standby: some are set read-only while their disk is full. */
  readonly readOnly: boolean;
  /** Whether a connection pooler answers instead of the server. */
  readonly pooled: boolean;
  readonly superuser: boolean;
  readonly createRole: boolean;
  readonly createDatabase: boolean;
  readonly signalBackend: boolean;
  /** The registry's database, and whether the broker owns it. */
  readonly registry: { readonly name: string; readonly owned: boolean };
  /** The connection limits of the broker's role and of its registry; -1 means none. */
  readonly ownConnections: readonly [ofRole: number, ofRegistry: number];
  readonly connections: {
    readonly max: number;
    /** Connections that the server reserves for superusers, brokers and others. */
    readonly kept: number;
  };
  /** Superuser roles of which the broker is a direct or indirect member. */
  readonly superuserGroups: readonly string[];
  readonly readAllStats: boolean;
  /** Whether the broker may use reserved connections, on a server that has them. */
  readonly mayUseReserved: boolean;
  /** Whether the server's log records statements of sessions. */
  readonly logsSessions: boolean;
  readonly preparedTransactions: number;
  /** The settings in `REQUIREMENTS`, each in its own unit. */
  readonly settings: Readonly<Record<string, number>>;
  /** Databases that every role of the server may connect to. */
  readonly openDatabases: readonly string[];
}

export interface Findings {
  /** Sentences; any one prevents the broker from listening. */
  readonly refusals: readonly string[];
  readonly warnings: readonly string[];
}

/** The configuration that the server is compared with. */
export interface Wanted {
  readonly acceptedOpen: readonly string[];
  /** The connection limit of one Assistant. */
  readonly connections: number;
}

/** The connections of each replica; see `open.ts`. */
const OWN_CONNECTIONS = 13;
/** The latest major version that all tests ran on. */
const TRIED = 18;

/** Whether a requirement holds, and the sentence if it does not. */
type Check = readonly [boolean, string];

/** Decides whether tenants would be isolated on this server. */
export function judge(facts: ServerFacts, wanted: Wanted): Findings {
  const sentences = (checks: readonly Check[]) => checks.filter(([holds]) => holds).map(([, text]) => text);
  return { refusals: sentences(refusalsOf(facts, wanted)), warnings: sentences(warningsOf(facts, wanted)) };
}

function refusalsOf(facts: ServerFacts, { acceptedOpen, connections }: Wanted): readonly Check[] {
  const { max, kept } = facts.connections;
  const role = quoted(facts.role);
  const registry = quoted(facts.registry.name);
  const tooFew = (limit: number) => limit >= 0 && limit < OWN_CONNECTIONS;
  const unaccepted = facts.openDatabases.filter((name) => !acceptedOpen.includes(name));
  return [
    [
      facts.version < 150_000,
      `PostgreSQL 15 or later is needed, and this is ${Math.floor(facts.version / 10_000)}: upgrade it`,
    ],
    [facts.standby, REFUSED.standby],
    [facts.readOnly && !facts.standby, REFUSED.readOnly(role)],
    [facts.pooled, REFUSED.pooled],
    [
      max - kept < connections,
      `max_connections is ${max}, of which ${kept} are not for Assistants, and one of them may have ${connections}: ALTER SYSTEM SET max_connections = 330, and restart it`,
    ],
    [
      tooFew(facts.ownConnections[0]),
      `each replica of the broker has ${OWN_CONNECTIONS} connections, and its role may have ${facts.ownConnections[0]}: ALTER ROLE ${role} CONNECTION LIMIT -1`,
    ],
    [
      tooFew(facts.ownConnections[1]),
      `each replica of the broker has ${OWN_CONNECTIONS} connections, and its registry allows ${facts.ownConnections[1]}: ALTER DATABASE ${registry} CONNECTION LIMIT -1`,
    ],
    [!facts.registry.owned, `the broker must own its registry: ALTER DATABASE ${registry} OWNER TO ${role}`],
    [facts.superuser, `the broker must not be superuser: ALTER ROLE ${role} NOSUPERUSER`],
    [
      !facts.superuser && facts.superuserGroups.length > 0,
      `the broker must not be a member of the superuser ${facts.superuserGroups.join(', ')}: ${facts.superuserGroups
        .map((group) => `REVOKE ${quoted(group)} FROM ${role}`)
        .join('; ')}`,
    ],
    [!facts.createRole, `the broker needs CREATEROLE: ALTER ROLE ${role} CREATEROLE`],
    [!facts.createDatabase, `the broker needs CREATEDB: ALTER ROLE ${role} CREATEDB`],
    [
      !facts.signalBackend,
      `the broker must be a member of pg_signal_backend: GRANT pg_signal_backend TO ${role}`,
    ],
    [
      unaccepted.length > 0,
      `PUBLIC may connect to ${unaccepted.join(', ')}: ${unaccepted.map((name) => `REVOKE CONNECT ON DATABASE ${quoted(name)} FROM PUBLIC`).join('; ')}; where that is not yours to do, list them in postgres.external.acceptOpenDatabases`,
    ],
  ];
}

function warningsOf(facts: ServerFacts, { acceptedOpen }: Wanted): readonly Check[] {
  const role = quoted(facts.role);
  const accepted = facts.openDatabases.filter((name) => acceptedOpen.includes(name));
  return [
    [facts.version >= (TRIED + 1) * 10_000, `PostgreSQL later than ${TRIED} was not tested with this broker`],
    [
      facts.preparedTransactions > 0,
      'max_prepared_transactions is not 0: a tenant can delay its own drop, and keep the table of locks full: ALTER SYSTEM SET max_prepared_transactions = 0',
    ],
    [
      !facts.readAllStats,
      `without pg_read_all_stats the broker sees neither old transactions nor sizes nor the sessions that block every drop: GRANT pg_read_all_stats TO ${role}`,
    ],
    [
      !facts.mayUseReserved,
      `the broker may not use the reserved connections: GRANT pg_use_reserved_connections TO ${role}`,
    ],
    [
      facts.logsSessions,
      "the server's log stores messages of tenants, with values of their rows and in any amount: ALTER ROLE ALL SET log_min_messages = fatal",
    ],
    ...judgeSettings(facts.version, facts.settings).map((text): Check => [true, text]),
    [accepted.length > 0, `accepted although open to PUBLIC: ${accepted.join(', ')}`],
  ];
}

export async function readServerFacts(connections: Connections): Promise<ServerFacts> {
  const pooled = await connections.isPooled();
  const [facts] = await connections.session((session) =>
    session.read<Omit<ServerFacts, 'pooled'>>(
      'preflight',
      `SELECT r.rolname::text AS role,
              current_setting('server_version_num')::int AS version,
              pg_is_in_recovery() AS standby,
              current_setting('transaction_read_only')::boolean AS "readOnly",
              json_build_object('name', d.datname, 'owned', pg_has_role(d.datdba, 'USAGE')) AS registry,
              ARRAY[r.rolconnlimit, d.datconnlimit] AS "ownConnections",
              json_build_object(
                'max', current_setting('max_connections')::int,
                'kept', current_setting('superuser_reserved_connections')::int
                        + coalesce(2 * current_setting('reserved_connections', true)::int, 30)) AS connections,
              r.rolsuper AS superuser,
              r.rolcreaterole AS "createRole",
              r.rolcreatedb AS "createDatabase",
              pg_has_role(r.oid, 'pg_signal_backend', 'MEMBER') AS "signalBackend",
              ARRAY(SELECT s.rolname::text FROM pg_roles s
                    WHERE s.rolsuper AND pg_has_role(r.oid, s.oid, 'MEMBER') ORDER BY 1) AS "superuserGroups",
              pg_has_role(r.oid, 'pg_read_all_stats', 'USAGE') AS "readAllStats",
              coalesce((SELECT pg_has_role(r.oid, u.oid, 'USAGE') FROM pg_roles u
                        WHERE u.rolname = 'pg_use_reserved_connections'), true) AS "mayUseReserved",
              (SELECT json_object_agg(name, CASE WHEN vartype = 'bool' THEN (setting = 'on')::int ELSE setting::numeric END)
               FROM pg_settings WHERE name = ANY ($1)) AS settings,
              current_setting('log_min_messages') NOT IN ('fatal', 'panic') AS "logsSessions",
              current_setting('max_prepared_transactions')::int AS "preparedTransactions",
              ARRAY(SELECT o.datname::text FROM pg_database o
                    WHERE o.datallowconn AND o.datconnlimit <> -2 AND EXISTS (
                      SELECT FROM aclexplode(coalesce(o.datacl, acldefault('d', o.datdba))) a
                      WHERE a.grantee = 0 AND a.privilege_type = 'CONNECT')
                    ORDER BY 1) AS "openDatabases"
       FROM pg_roles r, pg_database d WHERE r.rolname = current_user AND d.datname = current_database()`,
      [REQUIREMENTS.map(({ setting }) => setting)],
    ),
  );
  if (facts === undefined) throw new Error('the broker has no role');
  return { ...facts, pooled };
}

/** Throws if there is a refusal, so that the broker does not listen. */
export function requireSafe(findings: Findings): void {
  if (findings.refusals.length > 0)
    throw new ConfigError(`the server is not ready: ${findings.refusals.join('; ')}`);
}

/** Quotes a name that the broker did not create as an identifier. */
function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
