import { digestOf, isToken, newToken, Secret } from '@space/broker-kit';
import { exchangePrincipal } from '@space/broker-kit/principals';
import type { Context } from './context.ts';
import { acceptCommand, custodyStates, discardCommand } from './custody/commands.ts';

/** What an administrator may do in the broker's container; no route leads here. */
export interface Command {
  readonly usage: string;
  readonly about: string;
  run(
    context: Context,
    traceId: string,
    args: readonly string[],
    input: () => Promise<string>,
  ): Promise<unknown>;
}

/** The command was not given as it must be; its message says how. */
export class UsageError extends Error {}

export const COMMANDS: Readonly<Record<string, Command>> = {
  custody: {
    usage: 'custody',
    about: 'how registry and bucket agree about the credential sets of each Capsule, one JSON object a line',
    run: async ({ custody, connections }) => {
      const states = await custodyStates(custody, connections);
      return states.map((state) => JSON.stringify(state)).join('\n');
    },
  },
  'replace-principal': {
    usage: 'replace-principal CAPSULE < TOKEN',
    about: 'a new principal, read from standard input, for one that was lost; the old one is retired',
    run: async ({ connections }, traceId, [capsule, ...more], input) => {
      if (capsule === undefined || more.length > 0) throw new UsageError('exactly one Capsule is needed');
      const token = (await input()).trim();
      if (!isToken(token, 'osp'))
        throw new UsageError('standard input must hold one token spc_osp_<43 characters>');
      const principal = digestOf(new Secret(token));
      return connections.transaction((session) => exchangePrincipal(session, traceId, capsule, principal));
    },
  },
  'new-principal': {
    usage: 'new-principal',
    about: 'print a new principal token, registered nowhere',
    run: async () => newToken('osp').reveal(),
  },
  restore: {
    usage: 'restore accept|discard CAPSULE',
    about:
      'go on with the credential sets of a registry that was restored, or give them up: until then they are closed',
    run: ({ custody }, traceId, [verb, capsule, ...more]) => {
      const act = { accept: acceptCommand, discard: discardCommand }[verb ?? ''];
      if (act === undefined || capsule === undefined || more.length > 0)
        throw new UsageError('restore accept|discard CAPSULE');
      return act(custody, capsule, traceId);
    },
  },
};
