import { checkedName } from '../core/names.ts';
import type { Admits } from '../core/quota.ts';
import type { ObservedWorkload } from './observe.ts';

/**
 * The statements that create a workload's role and open its database to it alone. All of them use shared catalogues
 * only, so they run in the registry's database and in one transaction.
 */

const VERIFIER = /^SCRAM-SHA-256\$\d+:[A-Za-z0-9+/=]+\$[A-Za-z0-9+/=]+:[A-Za-z0-9+/=]+$/;

/**
 * How long statements of each kind wait for a lock. `Blockers` ends tenants that hold one, so this matters for locks
 * that only the server's owner can release; it is short where an alternative exists.
 */
const PATIENCE = {
  /** Closing and opening a database, and other changes to an existing workload. */
  cut: '1s',
  /** Renaming a spare; if it is locked, another one is taken. */
  give: '300ms',
  /** There is no alternative. */
  insist: '5s',
} as const;

export type Patience = keyof typeof PATIENCE;

/** Limits, inside a transaction, how long these statements wait for locks. */
export function within(kind: Patience, statements: readonly string[]): string {
  return [`SET LOCAL lock_timeout = '${PATIENCE[kind]}'`, ...statements].join(';\n');
}

/** A convenience and not an isolation: a tenant may change its own settings, but never its limits. */
const IDLE_IN_TRANSACTION = '60s';

/** A spare that becomes the database of this name, and the role that may use it. */
interface Opening {
  readonly spare: string;
  readonly name: string;
  readonly verifier: string;
  readonly connectionLimit: number;
  readonly patience: Patience;
}

/** Creates the role, renames the sealed spare, closes it to PUBLIC and opens it last. */
export function openingStatements(opening: Opening): string {
  const { name, verifier, connectionLimit } = opening;
  return givingStatements(opening, [
    `CREATE ROLE ${checkedName(name)} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT NOREPLICATION NOBYPASSRLS
       CONNECTION LIMIT ${limit(connectionLimit)} PASSWORD '${checkedVerifier(verifier)}'`,
  ]);
}

/** Gives a role, which the first statements prepare, a spare as its database. */
function givingStatements(
  { spare, name, connectionLimit, patience }: Omit<Opening, 'verifier'>,
  role: readonly string[],
): string {
  const own = checkedName(name);
  return within(patience, [
    ...role,
    `ALTER DATABASE ${checkedName(spare)} RENAME TO ${own}`,
    `REVOKE ALL ON DATABASE ${own} FROM PUBLIC`,
    `GRANT CONNECT, CREATE, TEMPORARY ON DATABASE ${own} TO ${own}`,
    `ALTER ROLE ${own} IN DATABASE ${own} SET idle_in_transaction_session_timeout = '${IDLE_IN_TRANSACTION}'`,
    `ALTER DATABASE ${own} WITH ALLOW_CONNECTIONS true CONNECTION LIMIT ${limit(connectionLimit)}`,
  ]);
}

/** Sets the role's password and attributes again, which reverts changes by the tenant. */
export function passwordStatement(name: string, verifier: string, patience: Patience): string {
  return within(patience, [`ALTER ROLE ${checkedName(name)} LOGIN PASSWORD '${checkedVerifier(verifier)}'`]);
}

/** Ends access. On the database of an interrupted drop only DROP is possible, so it is left out. */
export function closingStatements({ name, database, role }: ObservedWorkload): string[] {
  return [
    ...(role ? [`ALTER ROLE ${checkedName(name)} NOLOGIN`] : []),
    ...(database === 'valid' ? [`ALTER DATABASE ${checkedName(name)} WITH ALLOW_CONNECTIONS false`] : []),
  ];
}

/**
 * Takes the lock of the database that every new session needs, and waits until nobody is connected, as a rename does;
 * the name stays the same.
 */
export function seizingStatements(name: string): string[] {
  const own = checkedName(name);
  const held = checkedName(`${name}_held`);
  return [`ALTER DATABASE ${own} RENAME TO ${held}`, `ALTER DATABASE ${held} RENAME TO ${own}`];
}

/** Drops a role in a savepoint of its name; if that fails, the role remains without any right. */
export function roleDropStatement(name: string): string {
  return `SAVEPOINT role;\n${within('insist', [`DROP ROLE IF EXISTS ${checkedName(name)}`])}`;
}

/** Removes every right of a role that others still refer to, after `roleDropStatement` has failed. */
export function roleSilencingStatement(name: string): string {
  return `ROLLBACK TO SAVEPOINT role;\n${within('insist', [`ALTER ROLE ${checkedName(name)} NOLOGIN PASSWORD NULL`])}`;
}

/** Prevents connections until `reopeningStatements`. */
export function shuttingStatement(name: string): string {
  return `ALTER DATABASE ${checkedName(name)} WITH ALLOW_CONNECTIONS false`;
}

/** Sets the connection limit of the workload in its role and, if it has another one, in its database. */
export function connectionStatements(
  { name, database, role }: ObservedWorkload,
  ofRole: number,
  ofDatabase: number,
): string[] {
  const own = checkedName(name);
  return [
    ...(role ? [`ALTER ROLE ${own} CONNECTION LIMIT ${limit(ofRole)}`] : []),
    ...(database === 'valid' ? [`ALTER DATABASE ${own} WITH CONNECTION LIMIT ${limit(ofDatabase)}`] : []),
  ];
}

/** Opens or shuts a database, whatever its role may do; role and password stay unchanged. */
export function doorStatements(name: string, open: boolean, connections: number): string {
  return `ALTER DATABASE ${checkedName(name)} WITH ALLOW_CONNECTIONS ${open} CONNECTION LIMIT ${limit(connections)}`;
}

/** The number of sessions that copying a database needs. */
const COPYING = 4;

/** Admits a copying client, with a password of its own, to a database that is closed to its workload. */
export function lendingStatements(name: string, verifier: string): string {
  const own = checkedName(name);
  return within('insist', [
    roleForCopy(own, verifier),
    `ALTER DATABASE ${own} WITH ALLOW_CONNECTIONS true CONNECTION LIMIT ${COPYING}`,
  ]);
}

const roleForCopy = (own: string, verifier: string): string =>
  `ALTER ROLE ${own} LOGIN CONNECTION LIMIT ${COPYING} PASSWORD '${checkedVerifier(verifier)}'`;

/** A database for a client that copies into it; `kept` if its role has stayed from an earlier one. */
interface Arrival extends Omit<Opening, 'connectionLimit'> {
  readonly kept: boolean;
}

/** Creates a role, or uses the one that has stayed, and a database for a client that copies into it. */
export function arrivalStatements({ kept, ...arrival }: Arrival): string {
  const opening = { ...arrival, connectionLimit: COPYING };
  if (!kept) return openingStatements(opening);
  const own = checkedName(arrival.name);
  return givingStatements(opening, [roleForCopy(own, arrival.verifier)]);
}

/** Whether a workload's role may log in, whether its database accepts connections, and how many. */
export interface Admission {
  readonly login: boolean;
  readonly open: boolean;
  readonly ofRole: number;
  readonly ofDatabase: number;
}

/** Returns a copied database, source or target, to its workload and nobody else. */
export function admittingStatements(name: string, verifier: string, admission: Admission): string {
  const own = checkedName(name);
  const { login, open, ofRole, ofDatabase } = admission;
  return within('insist', [
    `ALTER ROLE ${own} ${login ? 'LOGIN' : 'NOLOGIN'} CONNECTION LIMIT ${limit(ofRole)} PASSWORD '${checkedVerifier(verifier)}'`,
    `ALTER DATABASE ${own} WITH ALLOW_CONNECTIONS ${open} CONNECTION LIMIT ${limit(ofDatabase)}`,
  ]);
}

/**
 * Reverts the closing of a database that is kept, as far as its quota admits connections. Without that the database stays
 * as it is, and only its role may log in again.
 */
export function reopeningStatements(name: string, admits: Admits | undefined): string {
  const door = admits === undefined ? [] : [doorStatements(name, admits.open, admits.connections)];
  return within('cut', [`ALTER ROLE ${checkedName(name)} LOGIN`, ...door]);
}

/**
 * Ends every session in these databases that the broker may end; an attempt on a superuser's session would make the
 * statement fail.
 */
export const END_SESSIONS = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity a JOIN pg_roles r ON r.oid = a.usesysid
  WHERE a.datname = ANY ($1) AND NOT r.rolsuper AND a.pid <> pg_backend_pid()`;

/**
 * Ends sessions of workloads in registered databases that admit none: a broker that shut one may have died before it had
 * ended those that came in meanwhile.
 */
export const END_STAYED = `SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
  JOIN pg_database d ON d.oid = a.datid JOIN broker.database w ON w.name = d.datname
  WHERE NOT d.datallowconn AND w.state = 'ready' AND a.usename = a.datname`;

/** Ends sessions of workloads beyond a number in each of these databases, and keeps those that are in use, then older ones. */
export const END_SURPLUS = `SELECT pg_terminate_backend(pid) FROM (
    SELECT a.pid, row_number() OVER (PARTITION BY a.datname ORDER BY a.state = 'idle', a.backend_start) AS place
    FROM pg_stat_activity a WHERE a.datname = ANY ($1) AND a.usename = a.datname AND a.backend_type = 'client backend') own
  WHERE place > $2`;

function checkedVerifier(verifier: string): string {
  if (!VERIFIER.test(verifier)) throw new Error('not a SCRAM verifier');
  return verifier;
}

function limit(connections: number): number {
  if (!Number.isInteger(connections) || connections < 1) throw new Error('not a connection limit');
  return connections;
}
