import { ServiceError } from '@space/broker-kit';
import { type Command, UsageError } from '@space/broker-kit/administrator';
import { audit, lockCapsule } from '@space/broker-kit/principals';
import type { Context } from './context.ts';
import { checkedName, isNameOf } from './core/names.ts';
import { observe } from './isolation/observe.ts';
import { dropRole } from './operations/finish.ts';
import {
  advanceDatabase,
  insertDatabase,
  lockDatabase,
  markRotationDue,
  noteLeftoverRole,
  unknownObjects,
} from './registry/rows.ts';
import { contextOf, everyContext, linesOf } from './servers/commands.ts';
import type { Servers } from './servers/router.ts';

/**
 * Commands for a registry that was restored from an older copy than the server: databases that it does not know are
 * adopted or dropped.
 */
export const RESTORE_COMMANDS: Readonly<Record<string, Command<Servers>>> = {
  unknown: {
    usage: 'unknown [SERVER]',
    about: 'databases and roles that the registry does not know, one JSON object a line',
    run: (servers, _traceId, args) =>
      linesOf(servers, args, ({ connections }) => connections.session(unknownObjects)),
  },
  adopt: {
    usage: 'adopt NAME CAPSULE [APP]',
    about: 'register an unknown database for the workload that it was made for',
    run: adopt,
  },
  'drop-unknown': {
    usage: 'drop-unknown NAME',
    about: 'drop an unknown database and its role; this cannot be undone',
    run: dropUnknown,
  },
};

/**
 * Adopts a database with a new password: the next create (or provision) returns it, and the old one is no longer valid.
 */
async function adopt(servers: Servers, traceId: string, args: readonly string[]) {
  const [name, capsule, app = ''] = args;
  if (name === undefined || capsule === undefined || args.length > 3)
    throw new UsageError('adopt NAME CAPSULE [APP]');
  const workload = { capsule, app };
  const context = await contextOf(servers, capsule);
  if (!isNameOf(context.nameKey, context.space, workload, name))
    throw new ServiceError('conflict', 'that database was not made for this workload');
  return context.connections.transaction(async (session) => {
    const { incarnation, state } = (await lockCapsule(session, capsule, 'SHARE')) ?? {};
    if (incarnation === undefined || state !== 'active')
      throw new ServiceError('conflict', 'the Capsule is not registered, or not active');
    const row = await lockDatabase(session, workload);
    const unknown = (await unknownObjects(session)).find((one) => one.name === name);
    if (unknown === undefined || !unknown.database || !unknown.role)
      throw new ServiceError('not_found', 'no unknown database with a role has this name');
    const lost = row !== undefined && (await observe(session, row.name)).database === 'absent';
    if (row !== undefined && row.state !== 'dropped' && !lost)
      throw new ServiceError('conflict', 'the workload has a database');
    const registration = {
      incarnation,
      name,
      generation: (row?.generation ?? 0) + 1,
      epoch: context.newEpoch(),
      keyId: context.derivationKeys().current.id,
    };
    if (row === undefined) await insertDatabase(session, workload, registration);
    else await advanceDatabase(session, workload, row, registration);
    await markRotationDue(session, workload);
    await audit(session, {
      traceId,
      operation: 'administrator.adopt',
      authority: 'administrator',
      ...workload,
      outcome: 'adopted',
    });
    return { adopted: name };
  });
}

async function dropUnknown(servers: Servers, traceId: string, args: readonly string[]) {
  const [name] = args;
  if (name === undefined || args.length > 1) throw new UsageError('drop-unknown NAME');
  const context = await theOneWithUnknown(servers, name);
  await context.connections.dropping((session) =>
    session.run('drop unknown database', `DROP DATABASE IF EXISTS ${checkedName(name)} WITH (FORCE)`),
  );
  await context.connections.transaction(async (session) => {
    if (!(await dropRole(session, name))) await noteLeftoverRole(session, name);
    await audit(session, {
      traceId,
      operation: 'administrator.drop-unknown',
      authority: 'administrator',
      capsule: '',
      app: '',
      outcome: 'dropped',
    });
  });
  return { dropped: name };
}

/**
 * The context of the only server where the name is unknown to the registry; with several such servers the command is
 * refused.
 */
async function theOneWithUnknown(servers: Servers, name: string): Promise<Context> {
  const found: Context[] = [];
  for (const context of everyContext(servers)) {
    const objects = await context.connections.session(unknownObjects);
    if (objects.some((one) => one.name === name)) found.push(context);
  }
  const [context, ...more] = found;
  if (context === undefined) throw new ServiceError('not_found', 'no unknown database or role has this name');
  if (more.length > 0) throw new ServiceError('conflict', 'several servers have it: drop it by hand');
  return context;
}
