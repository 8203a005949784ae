import type { Session } from '@space/broker-kit/postgres';

/** What the server has under one of our names. */
export interface Observed {
  readonly database: 'valid' | 'invalid' | 'absent';
  readonly role: boolean;
}

/**
 * Looks before acting: an interrupted DROP leaves an "invalid" database (connection limit −2) that looks existing to
 * CREATE, and ends the session of whoever tries to ALTER it.
 */
export async function observe(session: Session, name: string): Promise<Observed> {
  const [row] = await session.run<{ limit: number | null; role: boolean }>(
    'observe database',
    `SELECT (SELECT datconnlimit FROM pg_database WHERE datname = $1) AS limit,
            EXISTS (SELECT FROM pg_roles WHERE rolname = $1) AS role`,
    [name],
  );
  const connectionLimit = row?.limit ?? null;
  const database = connectionLimit === null ? 'absent' : connectionLimit === -2 ? 'invalid' : 'valid';
  return { database, role: row?.role ?? false };
}
