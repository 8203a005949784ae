import { type Clients, copyDatabase } from '../../../testing/postgres/clients.ts';
import { COMMANDS } from '../commands.ts';
import type { Copy } from '../moves/begin.ts';
import type { TestBroker } from './broker.ts';

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
  await Promise.all(copies.map((copy) => copyDatabase(clients, copy)));
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
