import type { Session } from '@space/broker-kit/postgres';
import { TwinServers } from './further.ts';

/** What distinguishes a server from others. */
export interface Identity {
  readonly name: string;
  /** The random id of the registry. */
  readonly installation: string;
  /** The identifier of the PostgreSQL cluster; undefined if the broker may not read it. */
  readonly system: string | undefined;
}

/** The identifier that initdb created. Standbys and copies of the files have the same one. */
export async function systemIdOf(session: Session): Promise<string | undefined> {
  const [may] = await session.read<{ read: boolean }>(
    'ask for system id',
    `SELECT has_function_privilege('pg_control_system()', 'EXECUTE') AS read`,
  );
  if (may?.read !== true) return undefined;
  const [row] = await session.read<{ system: string }>(
    'read system id',
    'SELECT system_identifier::text AS system FROM pg_control_system()',
  );
  return row?.system;
}

/** Throws if an open server is the same one, since its connections would be granted twice. */
export function requireDifferent(one: Identity, others: Iterable<Identity>): void {
  for (const other of others) {
    if (other.name === one.name) continue;
    if (other.installation === one.installation)
      throw new TwinServers(
        `SERVERS_FILE: ${other.name} and ${one.name} are one server: they have one registry`,
      );
    if (one.system !== undefined && other.system === one.system)
      throw new TwinServers(
        `SERVERS_FILE: ${other.name} and ${one.name} are one server, or one is a copy of the other: PostgreSQL has the same system identifier there`,
      );
  }
}
