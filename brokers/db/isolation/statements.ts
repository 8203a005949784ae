import { checkedName } from '../core/names.ts';
import type { ObservedWorkload } from './observe.ts';

/**
 * The statements that make a workload's role and open its database to it and to nobody else. All of them touch
 * shared catalogues only, so they run from the registry's database and in one transaction.
 */

const VERIFIER = /^SCRAM-SHA-256\$\d+:[A-Za-z0-9+/=]+\$[A-Za-z0-9+/=]+:[A-Za-z0-9+/=]+$/;

/**
 * How long statements of each kind wait for a lock. Tenants that hold one are put out meanwhile (`Blockers`), so this is
 * for what only the server's owner may end, and short where there is something else to try.
 */
const PATIENCE = {
  /** Closing and opening a database, and whatever else is done to a workload that exists. */
  cut: '1s',
  /** A spare is given: there are others. */
  give: '300ms',
  /** There is nothing else to try. */
  insist: '5s',
} as const;

export type Patience = keyof typeof PATIENCE;

/** For a transaction: these statements wait for their locks as long as their kind may. */
export function within(kind: Patience, statements: readonly string[]): string {
  return [`SET LOCAL lock_timeout = '${PATIENCE[kind]}'`, ...statements].join(';\n');
}

/** A guard rail, not a wall: a tenant may change its own settings, never its limits. */
const IDLE_IN_TRANSACTION = '60s';

/** Makes the role, gives the sealed spare its name, closes it to PUBLIC and opens it last. */
export function openingStatements(
  spare: string,
  name: string,
  verifier: string,
  connectionLimit: number,
  patience: Patience,
): string {
  const own = checkedName(name);
  return within(patience, [
    `CREATE ROLE ${own} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT NOREPLICATION NOBYPASSRLS
       CONNECTION LIMIT ${limit(connectionLimit)} PASSWORD '${checkedVerifier(verifier)}'`,
    `ALTER DATABASE ${checkedName(spare)} RENAME TO ${own}`,
    `REVOKE ALL ON DATABASE ${own} FROM PUBLIC`,
    `GRANT CONNECT, CREATE, TEMPORARY ON DATABASE ${own} TO ${own}`,
    `ALTER ROLE ${own} IN DATABASE ${own} SET idle_in_transaction_session_timeout = '${IDLE_IN_TRANSACTION}'`,
    `ALTER DATABASE ${own} WITH ALLOW_CONNECTIONS true CONNECTION LIMIT ${limit(connectionLimit)}`,
  ]);
}

/** Says again who the role is; heals what a tenant did to its own password. */
export function passwordStatement(name: string, verifier: string, patience: Patience): string {
  return within(patience, [`ALTER ROLE ${checkedName(name)} LOGIN PASSWORD '${checkedVerifier(verifier)}'`]);
}

/** Nobody comes in any more. On an interrupted drop's database only DROP is possible, so it is left out. */
export function closingStatements({ name, database, role }: ObservedWorkload): string[] {
  return [
    ...(role ? [`ALTER ROLE ${checkedName(name)} NOLOGIN`] : []),
    ...(database === 'valid' ? [`ALTER DATABASE ${checkedName(name)} WITH ALLOW_CONNECTIONS false`] : []),
  ];
}

/**
 * Takes the lock of the database that every session needs to come in, and waits until nobody is in it, as only a change
 * of its name does; the name stays.
 */
export function seizingStatements(name: string): string[] {
  const own = checkedName(name);
  const held = checkedName(`${name}_held`);
  return [`ALTER DATABASE ${own} RENAME TO ${held}`, `ALTER DATABASE ${held} RENAME TO ${own}`];
}

/** Drops a role, in a savepoint named after it, or leaves one that can do nothing. */
export function roleDropStatement(name: string): string {
  return `SAVEPOINT role;\n${within('insist', [`DROP ROLE IF EXISTS ${checkedName(name)}`])}`;
}

/** What becomes of a role that others still name, after `roleDropStatement` has failed. */
export function roleSilencingStatement(name: string): string {
  return `ROLLBACK TO SAVEPOINT role;\n${within('insist', [`ALTER ROLE ${checkedName(name)} NOLOGIN PASSWORD NULL`])}`;
}

/** Nobody comes in until `reopeningStatements`. */
export function shuttingStatement(name: string): string {
  return `ALTER DATABASE ${checkedName(name)} WITH ALLOW_CONNECTIONS false`;
}

/** How many the workload may be, in its role and, where that is another number, in its database. */
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

/** Opens or shuts a database, whatever its role may do; the role and its password stay as they are. */
export function doorStatements(name: string, open: boolean, connections: number): string {
  return `ALTER DATABASE ${checkedName(name)} WITH ALLOW_CONNECTIONS ${open} CONNECTION LIMIT ${limit(connections)}`;
}

/** So many sessions has whoever copies a database. */
const COPYING = 4;

/** Lets in, under a password of its own, who copies a database that is closed to its workload. */
export function lendingStatements(name: string, verifier: string): string {
  const own = checkedName(name);
  return within('insist', [
    `ALTER ROLE ${own} LOGIN CONNECTION LIMIT ${COPYING} PASSWORD '${checkedVerifier(verifier)}'`,
    `ALTER DATABASE ${own} WITH ALLOW_CONNECTIONS true CONNECTION LIMIT ${COPYING}`,
  ]);
}

/** Makes a role and a database for whoever copies one into it. */
export function arrivalStatements(spare: string, name: string, verifier: string, patience: Patience): string {
  return openingStatements(spare, name, verifier, COPYING, patience);
}

/** How a workload stands: whether its role may log in, whether its database lets anybody in, and how many. */
export interface Admission {
  readonly login: boolean;
  readonly open: boolean;
  readonly ofRole: number;
  readonly ofDatabase: number;
}

/** Gives a database that was copied, from it or into it, to its workload and nobody else. */
export function admittingStatements(name: string, verifier: string, admission: Admission): string {
  const own = checkedName(name);
  const { login, open, ofRole, ofDatabase } = admission;
  return within('insist', [
    `ALTER ROLE ${own} ${login ? 'LOGIN' : 'NOLOGIN'} CONNECTION LIMIT ${limit(ofRole)} PASSWORD '${checkedVerifier(verifier)}'`,
    `ALTER DATABASE ${own} WITH ALLOW_CONNECTIONS ${open} CONNECTION LIMIT ${limit(ofDatabase)}`,
  ]);
}

/** Undoes the closing of a database that was kept. */
export function reopeningStatements(name: string): string {
  const own = checkedName(name);
  return within('cut', [`ALTER ROLE ${own} LOGIN`, `ALTER DATABASE ${own} WITH ALLOW_CONNECTIONS true`]);
}

/** Ends every session in these databases that we may end; to try one that is a superuser's would end this statement instead. */
export const END_SESSIONS = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity a JOIN pg_roles r ON r.oid = a.usesysid
  WHERE a.datname = ANY ($1) AND NOT r.rolsuper AND a.pid <> pg_backend_pid()`;

function checkedVerifier(verifier: string): string {
  if (!VERIFIER.test(verifier)) throw new Error('not a SCRAM verifier');
  return verifier;
}

function limit(connections: number): number {
  if (!Number.isInteger(connections) || connections < 1) throw new Error('not a connection limit');
  return connections;
}
