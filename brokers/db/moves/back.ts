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
 * Takes a move back that has not landed: its copy is dropped, and the Capsule goes on where it was. Returns servers that
 * did not answer, which may have something left of the copy.
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
 * After this no command of before makes the copy a Capsule's: none begins to land any more, since the source is told first,
 * and none that had begun ends it. A target that does not answer may have the Capsule already if somebody has begun to land:
 * then nobody knows which of the two is right, and it is waited for.
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

/** Lets its workloads into the source again, by the URLs that they have. */
async function reopen({ context }: End, traceId: string, capsule: string): Promise<void> {
  // As at the end of an eviction: who proved the password of the copy and waits at the door must find it closed.
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

/** Whether the source is still closed by the move whose copies were ended; its place is locked from now on. */
async function isClosed(session: Session, capsule: string): Promise<boolean> {
  await lockPlace(session, capsule);
  await lockCapsule(session, capsule, 'UPDATE');
  const departure = await findDeparture(session, capsule);
  if (departure === undefined) return false;
  if (!isEnded(departure))
    throw new ServiceError('conflict', 'another copy was begun since: take that back, or end it');
  return true;
}
