import { ServiceError } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';
import { audit, lockCapsule } from '@space/broker-kit/principals';
import { observeRegistered } from '../isolation/observe.ts';
import { admittingStatements } from '../isolation/statements.ts';
import { readLimits } from '../limits/rows.ts';
import { endSessions, seize, withCut } from '../operations/cut.ts';
import { verifierOf } from '../operations/ensure.ts';
import { livingDatabases } from '../registry/rows.ts';
import type { Servers } from '../servers/router.ts';
import { isReady } from '../servers/server.ts';
import { clearRests, dropArrival } from './rest.ts';
import { endDeparture, findDeparture, forgetDeparture, isEnded } from './rows/departure.ts';
import { lockPlace, noteStays } from './rows/placement.ts';
import { admissionOf, type End, endOf, entryOf, mainOf, whereaboutsOf } from './way.ts';

/**
 * Reverts a move that has not landed: its copy is dropped, and the Capsule continues on the source. Returns the servers
 * that did not answer, which may still have parts of the copy.
 */
export async function takeBack(servers: Servers, traceId: string, capsule: string): Promise<string[]> {
  const { server, movingTo } = await whereaboutsOf(servers, capsule);
  if (movingTo !== null) {
    const from = endOf(servers, capsule, server);
    await endCopy(servers, from, capsule, movingTo);
    from.context.failpoint('move:before-return');
    await reopen(from, traceId, capsule);
    from.context.failpoint('move:after-return');
    await mainOf(servers).connections.transaction((session) => noteStays(session, capsule, movingTo));
  }
  return clearRests(servers, traceId, capsule, server);
}

/**
 * Ends every attempt of the move. The source is told first, so that no attempt begins to land; then the target, so that
 * none that began can complete. If an attempt has begun to land and the target does not answer, the Capsule may be
 * there already, and this call fails until the target answers.
 */
async function endCopy(servers: Servers, from: End, capsule: string, target: string): Promise<void> {
  const isThere = servers.all.some((server) => server.name === target && isReady(server));
  await from.context.connections.transaction(async (session) => {
    await lockPlace(session, capsule);
    const departure = await findDeparture(session, capsule);
    if (departure === undefined) return;
    if (!isThere && departure.state !== 'copying')
      throw new ServiceError(
        'unavailable',
        `server ${target} may have the Capsule already, and does not answer: wait for it`,
      );
    if (departure.state !== 'gone') await endDeparture(session, capsule);
  });
  from.context.failpoint('move:after-source-end');
  if (isThere && !(await dropArrival(endOf(servers, capsule, target).context, capsule)))
    throw new ServiceError(
      'conflict',
      `the Capsule is on ${target} already: end the move, then move it to ${from.name}`,
    );
}

/** Admits the workloads to the source again, with the URLs that they have. */
async function reopen({ context }: End, traceId: string, capsule: string): Promise<void> {
  // As at the end of an eviction, a session that proved the copy's password and waits for the lock must find the
  // database closed.
  await withCut(
    context,
    async (session, cut) => {
      if (!(await isClosed(session, capsule))) return [];
      const observed = await observeRegistered(session, capsule);
      await cut(observed);
      return observed.map(({ name }) => name);
    },
    (session, names) => endSessions(context, session, names),
  );
  await context.connections.transaction(async (session) => {
    if (!(await isClosed(session, capsule))) return;
    const databases = await livingDatabases(session, capsule);
    const limits = await readLimits(session, capsule);
    await seize(context, session, await observeRegistered(session, capsule));
    for (const one of databases) {
      const verifier = await verifierOf(context, { capsule, app: one.app }, one);
      const statements = admittingStatements(one.name, verifier, admissionOf(context, one, limits));
      await session.run('admit workload', statements);
    }
    await forgetDeparture(session, capsule);
    await audit(session, entryOf(traceId, capsule, 'taken back'));
  });
}

/** Whether the source is still closed by this move. It locks the Capsule's place in the registry. */
async function isClosed(session: Session, capsule: string): Promise<boolean> {
  await lockPlace(session, capsule);
  await lockCapsule(session, capsule, 'UPDATE');
  const departure = await findDeparture(session, capsule);
  if (departure === undefined) return false;
  if (!isEnded(departure))
    throw new ServiceError('conflict', 'another copy was begun since: take that back, or end it');
  return true;
}
