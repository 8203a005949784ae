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

/** What a move leaves behind on servers where the Capsule is not, or is no more. */

/**
 * Drops what is left of a Capsule on all servers but its own, and of copies that nobody ends, but for those into `target`.
 * Returns the servers that did not answer.
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

/** What a Capsule has left on a server, which no request reaches any more. */
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

/** A copy that did not land; false where it has. */
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

/** Of one that has landed nothing need be known once the move is over. */
async function forgetLanded(context: Context, capsule: string): Promise<void> {
  await context.connections.transaction(async (session) => {
    if ((await findArrival(session, capsule))?.landed) await forgetArrival(session, capsule);
  });
}

/** Drops databases that were made for a copy, with what was copied into them. */
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
