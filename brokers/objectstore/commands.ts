import { type Command, principalCommands, UsageError } from '@space/broker-kit/administrator';
import type { Context } from './context.ts';
import { acceptCommand, custodyStates, discardCommand } from './custody/commands.ts';

export const COMMANDS: Readonly<Record<string, Command<Context>>> = {
  ...principalCommands<Context>('osp'),
  custody: {
    usage: 'custody',
    about: 'how registry and bucket agree about the credential sets of each Capsule, one JSON object a line',
    run: async ({ custody, connections }) => {
      const states = await custodyStates(custody, connections);
      return states.map((state) => JSON.stringify(state)).join('\n');
    },
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
