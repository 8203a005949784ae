import { checkedName } from '../core/names.ts';
import type { ObservedWorkload } from './observe.ts';

/**
 * The statements that make a workload's role and open its database to it and to nobody else. All of them touch
 * shared catalogues only, so they run from the registry's database and in one transaction.
 */

const VERIFIER = /^SCRAM-SHA-256\$\d+:[A-Za-z0-9+/=]+\$[A-Za-z0-9+/=]+:[A-Za-z0-9+/=]+$/;

/** A guard rail, not a wall: a tenant may change its own settings, never its limits. */
const IDLE_IN_TRANSACTION = '60s';

/** Makes the role, gives the sealed spare its name, closes it to PUBLIC and opens it last. */
export function openingStatements(
  spare: string,
  name: string,
  verifier: string,
  connectionLimit: number,
): string {
  const own = checkedName(name);
  return [
    `CREATE ROLE ${own} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT NOREPLICATION NOBYPASSRLS
       CONNECTION LIMIT ${limit(connectionLimit)} PASSWORD '${checkedVerifier(verifier)}'`,
    `ALTER DATABASE ${checkedName(spare)} RENAME TO ${own}`,
    `REVOKE ALL ON DATABASE ${own} FROM PUBLIC`,
    `GRANT CONNECT, CREATE, TEMPORARY ON DATABASE ${own} TO ${own}`,
    `ALTER ROLE ${own} IN DATABASE ${own} SET idle_in_transaction_session_timeout = '${IDLE_IN_TRANSACTION}'`,
    `ALTER DATABASE ${own} WITH ALLOW_CONNECTIONS true CONNECTION LIMIT ${limit(connectionLimit)}`,
  ].join(';\n');
}

/** Says again who the role is; heals what a tenant did to its own password. */
export function passwordStatement(name: string, verifier: string): string {
  return `ALTER ROLE ${checkedName(name)} LOGIN PASSWORD '${checkedVerifier(verifier)}'`;
}

/** Nobody comes in any more. On an interrupted drop's database only DROP is possible, so it is left out. */
export function closingStatements({ name, database, role }: ObservedWorkload): string[] {
  return [
    ...(role ? [`ALTER ROLE ${checkedName(name)} NOLOGIN`] : []),
    ...(database === 'valid' ? [`ALTER DATABASE ${checkedName(name)} WITH ALLOW_CONNECTIONS false`] : []),
  ];
}

/** Undoes the closing of a database that was kept. */
export function reopeningStatements(name: string): string {
  const own = checkedName(name);
  return `ALTER ROLE ${own} LOGIN;\nALTER DATABASE ${own} WITH ALLOW_CONNECTIONS true`;
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
