import { lockCapsule } from '@space/broker-kit/principals';
import { type Context, ofCapsule } from '../context.ts';
import { observe } from '../isolation/observe.ts';
import { endSessions, withCut } from '../operations/cut.ts';
import { dropDatabase, dropRole, finishDrop } from '../operations/finish.ts';
import { noteLeftoverRole } from '../registry/rows.ts';
import type { Servers } from '../servers/router.ts';
import { isReady, requireUsable } from '../servers/server.ts';
import { arrivingDatabases, endArrival, findArrival, forgetArrival, forgetArriving } from './rows/arrival.ts';
import { findRest, forgetRest } from './rows/departure.ts';
import { lockPlace } from './rows/placement.ts';
import { entryOf } from './way.ts';

/** Parts that a move leaves on servers where the Capsule is not, or is no longer. */

/**
 * Drops the parts of a Capsule on all servers but its own, and of abandoned copies, except those into `target`. Returns
 * the servers that did not answer.
 */
export async function clearRests(
  servers: Servers,
  traceId: string,
  capsule: string,
  own: string,
  target?: string,
): Promise<string[]> {
  const away: string[] = [];
  for (const server of servers.all) {
    if (!isReady(server)) {
      away.push(server.name);
      continue;
    }
    const context = ofCapsule(requireUsable(server).context, capsule);
    if (server.name === own) await forgetLanded(context, capsule);
    else {
      await dropRest(context, traceId, capsule);
      if (server.name !== target) await dropArrival(context, capsule);
    }
  }
  return away;
}

/** Drops the parts of a Capsule on a server where no request reaches them any more. */
async function dropRest(context: Context, traceId: string, capsule: string): Promise<void> {
  const rest = await context.connections.session((session) => findRest(session, capsule));
  if (rest === undefined) return;
  const { outcome: _, ...entry } = entryOf(traceId, capsule, '');
  for (const { app, name } of rest) await finishDrop(context, entry, { capsule, app }, name);
  context.failpoint('move:before-forget');
  await context.connections.transaction(async (session) => {
    await lockCapsule(session, capsule, 'UPDATE');
    await forgetRest(session, capsule);
  });
}

/** Drops a copy that has not landed; returns false if it has. */
export async function dropArrival(context: Context, capsule: string): Promise<boolean> {
  const ended = await context.connections.transaction(async (session) => {
    await lockPlace(session, capsule);
    return endArrival(session, capsule);
  });
  if (!ended) return false;
  context.failpoint('move:after-end');
  await clearArriving(context, capsule);
  await context.connections.transaction((session) => forgetArrival(session, capsule));
  return true;
}

/** Forgets the note about a landed Capsule, which nobody needs once the move is over. */
async function forgetLanded(context: Context, capsule: string): Promise<void> {
  await context.connections.transaction(async (session) => {
    if ((await findArrival(session, capsule))?.landed) await forgetArrival(session, capsule);
  });
}

/** Drops databases that were created for a copy, with the data in them. */
export async function clearArriving(context: Context, capsule: string): Promise<void> {
  const names = await context.connections.session((session) => arrivingDatabases(session, capsule));
  for (const name of names) {
    await withCut(
      context,
      async (session, cut) => cut([{ name, ...(await observe(session, name)) }]),
      (session) => endSessions(context, session, [name]),
    );
    await dropDatabase(context, name);
    context.failpoint('move:after-twin-dropped');
    await context.connections.transaction(async (session) => {
      if (!(await dropRole(session, name))) await noteLeftoverRole(session, name);
      await forgetArriving(session, name);
    });
  }
}
