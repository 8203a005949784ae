import { ServiceError } from '@space/broker-kit';
import { type Command, onlyCapsule, principalCommands, UsageError } from '@space/broker-kit/administrator';
import { lockCapsule } from '@space/broker-kit/principals';
import { acceptCommand, custodyStates, discardCommand } from './byok/custody/commands.ts';
import type { Context } from './context.ts';
import { exchangeAll } from './principals/exchange.ts';
import { storeOf } from './principals/rows.ts';

const PRINCIPALS = principalCommands<Context>(
  'osp',
  async ({ connections, epochs }) => {
    // Each replacement raises the epoch, so that some of them would hide that the registry was set back.
    await epochs.expectCurrent();
    return connections;
  },
  ({ capsules }, session, capsule, principal) => capsules.bind(session, capsule, principal),
);

export const COMMANDS: Readonly<Record<string, Command<Context>>> = {
  ...PRINCIPALS,
  'replace-principal': anchored(PRINCIPALS['replace-principal']),
  'replace-principals': anchored(PRINCIPALS['replace-principals']),
  custody: {
    usage: 'custody',
    about: 'how registry and bucket agree about the credential sets of each Capsule, one JSON object a line',
    run: async ({ custody, connections }) => {
      const states = await custodyStates(custody, connections);
      return states.map((state) => JSON.stringify(state)).join('\n');
    },
  },
  recount: {
    usage: 'recount CAPSULE',
    about: 'count what the Capsule has in the bucket, where something else than the broker has put it there',
    run: (context, _traceId, args) => recountCapsule(context, onlyCapsule(args)),
  },
  restore: {
    usage: 'restore principals | restore accept|discard CAPSULE',
    about:
      'after the registry was restored: end all principals in it; go on with the credential sets of a Capsule, or give them up. Until then they are closed',
    run: async (context, traceId, [verb, capsule, ...more]) => {
      if (verb === 'principals' && capsule === undefined) return exchangeAll(context, traceId);
      const { custody } = context;
      const act = { accept: acceptCommand, discard: discardCommand }[verb ?? ''];
      if (act === undefined || capsule === undefined || more.length > 0)
        throw new UsageError('restore principals | restore accept|discard CAPSULE');
      return act(custody, capsule, traceId);
    },
  },
};

/** The command, which says that principals have ended once the bucket knows, as calls do. */
function anchored({ run, ...about }: Command<Context>): Command<Context> {
  return {
    ...about,
    run: async (context, ...given) => {
      const told = await run(context, ...given);
      await context.epochs.anchor();
      return told;
    },
  };
}

async function recountCapsule({ connections, defaultQuotaBytes, recount }: Context, capsule: string) {
  const store = await connections.transaction(async (session) => {
    if ((await lockCapsule(session, capsule, 'SHARE')) === undefined)
      throw new ServiceError('not_found', 'no such Capsule');
    return storeOf(session, capsule);
  });
  const of = { capsulePrefix: store.prefix, quotaBytes: store.quotaBytes ?? defaultQuotaBytes };
  // What the broker's replicas have reserved is included in the count.
  return { counted: await recount(of, async () => undefined) };
}
