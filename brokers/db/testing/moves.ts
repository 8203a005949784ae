import { type Clients, copyDatabase } from '../../../testing/postgres/clients.ts';
import type { EmbeddedServer } from '../../../testing/postgres/server.ts';
import { COMMANDS } from '../commands.ts';
import type { Copy } from '../moves/begin.ts';
import type { TestBroker } from './broker.ts';
import type { TwoServers } from './servers.ts';

/** What `move` answers. */
interface Answer {
  readonly moving?: string;
  readonly moved?: string;
  readonly stays?: string;
  readonly to?: string;
  readonly attempt?: string;
  readonly copies?: readonly Copy[];
  readonly unanswered?: readonly string[];
}

/** Gives the administrator's command. */
export function move({ servers }: Pick<TestBroker, 'servers'>, ...args: readonly string[]): Promise<Answer> {
  const command = COMMANDS['move'];
  if (command === undefined) throw new Error('there is no such command');
  return command.run(servers, 'e'.repeat(32), args, async () => '') as Promise<Answer>;
}

/** Copies all that a move says. */
export async function copyAll(clients: Clients, copies: readonly Copy[] = []): Promise<void> {
  const roles = copies.map(({ name }) => name);
  await Promise.all(copies.map(({ from, to }) => copyDatabase(clients, { from, to, roles })));
}

/** The whole of it, as somebody does who gives it again after it was cut short. */
export async function moveWhole(
  broker: Pick<TestBroker, 'servers'>,
  clients: Clients,
  capsule: string,
  target: string,
): Promise<Answer> {
  const begun = await move(broker, capsule, target);
  if (begun.attempt === undefined) return begun;
  await copyAll(clients, begun.copies);
  return move(broker, capsule, target, '--copied', begun.attempt);
}

const TABLES = ['capsule', 'database', 'departure', 'placement'];

/** What a registry has of a Capsule. The function sets it back to that, as a restore of its server does. */
export async function savedRows(
  { registry }: Pick<TwoServers, 'registry'>,
  server: EmbeddedServer,
  capsule: string,
): Promise<() => Promise<void>> {
  const saved: string[] = [];
  for (const table of TABLES) {
    const [row] = await registry<{ all: string }>(
      server,
      `SELECT coalesce(jsonb_agg(to_jsonb(t)), '[]')::text AS all FROM broker.${table} t WHERE capsule_id = $1`,
      [capsule],
    );
    saved.push(
      `INSERT INTO broker.${table} SELECT * FROM jsonb_populate_recordset(NULL::broker.${table}, '${row?.all}')`,
    );
  }
  const gone = TABLES.toReversed().map(
    (table) => `DELETE FROM broker.${table} WHERE capsule_id = '${capsule}'`,
  );
  const statements = ['BEGIN', "SET LOCAL session_replication_role = 'replica'", ...gone, ...saved, 'COMMIT'];
  return async () => {
    await registry(server, statements.join('; '));
  };
}
