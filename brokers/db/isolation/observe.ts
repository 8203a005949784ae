import type { Session } from '@space/broker-kit/postgres';

/** What exists on the server under one of the broker's names. */
export interface Observed {
  readonly database: 'valid' | 'invalid' | 'absent';
  readonly role: boolean;
}

/** What exists on the server under the name of a registered database, which may be gone. */
export interface ObservedWorkload extends Observed {
  readonly name: string;
}

/**
 * Reads what exists before acting: an interrupted DROP leaves an "invalid" database (connection limit −2), which exists
 * for CREATE, and ends the session that tries to ALTER it.
 */
export async function observe(session: Session, name: string): Promise<Observed> {
  const [row] = await session.read<{ limit: number | null; role: boolean }>(
    'observe database',
    `SELECT (SELECT datconnlimit FROM pg_database WHERE datname = $1) AS limit,
            EXISTS (SELECT FROM pg_roles WHERE rolname = $1) AS role`,
    [name],
  );
  return { database: conditionOf(row?.limit ?? null), role: row?.role ?? false };
}

/** Whether anybody can still connect as the role or to the database of this name. */
export async function isOpen(session: Session, name: string): Promise<boolean> {
  const [row] = await session.read<{ open: boolean }>(
    'observe doors',
    `SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1 AND rolcanlogin)
         OR EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datallowconn AND datconnlimit <> -2) AS open`,
    [name],
  );
  return row?.open ?? false;
}

/**
 * The same for the registered database of a workload, or for all of a Capsule, without knowing their names. After the
 * lock of their rows it sees what the previous holder of the lock left.
 */
export async function observeRegistered(
  session: Session,
  capsule: string,
  app?: string,
): Promise<ObservedWorkload[]> {
  const rows = await session.read<{ name: string; limit: number | null; role: boolean }>(
    'observe registered',
    `SELECT r.name, d.datconnlimit AS limit,
            EXISTS (SELECT FROM pg_roles WHERE rolname = r.name) AS role
     FROM broker.database r LEFT JOIN pg_database d ON d.datname = r.name
     WHERE r.capsule_id = $1 AND r.app_id = coalesce($2, r.app_id) AND r.state = 'ready'`,
    [capsule, app ?? null],
  );
  return rows.map(({ name, limit, role }) => ({ name, database: conditionOf(limit), role }));
}

function conditionOf(connectionLimit: number | null): Observed['database'] {
  if (connectionLimit === null) return 'absent';
  return connectionLimit === -2 ? 'invalid' : 'valid';
}
