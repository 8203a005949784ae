import { ServiceError } from '@space/broker-kit';
import { audit, lockCapsule } from '@space/broker-kit/principals';
import { observe, observeRegistered } from '../isolation/observe.ts';
import { admittingStatements } from '../isolation/statements.ts';
import { type LimitsRow, readLimits } from '../limits/rows.ts';
import { endSessions, seize, withCut } from '../operations/cut.ts';
import { verifierOf } from '../operations/ensure.ts';
import { livingDatabases } from '../registry/rows.ts';
import type { Servers } from '../servers/router.ts';
import { clearRests } from './rest.ts';
import { arrivingDatabases, findArrival, markLanded } from './rows/arrival.ts';
import { type Baggage, packRows, unpackRows } from './rows/baggage.ts';
import { advanceDeparture, findDeparture, forgetDeparture, leaveRest } from './rows/departure.ts';
import { lockPlace, noteMoved } from './rows/placement.ts';
import {
  admissionOf,
  endOf,
  entryOf,
  type Moving,
  mainOf,
  requireAttempt,
  type Way,
  whereaboutsOf,
} from './way.ts';

/**
 * Ends a move whose databases are copied: the target gets the rows and opens, the source loses them, the first server
 * stores the new place, and the rest on the source is dropped. Returns the servers that may still have parts.
 */
export async function landMove(
  servers: Servers,
  traceId: string,
  capsule: string,
  target: string,
  attempt: string,
): Promise<string[]> {
  const { server, movingTo } = await whereaboutsOf(servers, capsule);
  if (movingTo !== target)
    throw new ServiceError('conflict', `the Capsule is on ${server}, and not being moved to ${target}`);
  const to = endOf(servers, capsule, target);
  const way: Way = { capsule, main: mainOf(servers), from: endOf(servers, capsule, server), to };
  const found = await to.context.connections.session((session) => findArrival(session, capsule));
  if (found?.landed !== true) {
    const left = await shut(way, traceId, attempt);
    way.main.failpoint('move:after-shut');
    await shutTwins(way, left.databases);
    way.main.failpoint('move:after-twins-shut');
    await land(way, traceId, attempt, left);
  }
  return endMove(servers, traceId, way);
}

/** The rows and databases that move. */
interface Left {
  readonly databases: readonly Moving[];
  readonly limits: LimitsRow | undefined;
  readonly baggage: Baggage;
}

/** Ends the copying client's access and reads the rows, which no request can change any more. */
function shut({ capsule, from: { context } }: Way, traceId: string, attempt: string): Promise<Left> {
  return withCut(
    context,
    async (session, cut) => {
      await lockPlace(session, capsule);
      await lockCapsule(session, capsule, 'UPDATE');
      requireAttempt(await findDeparture(session, capsule), attempt);
      await advanceDeparture(session, capsule, 'landing');
      const databases = await livingDatabases(session, capsule);
      await cut(await observeRegistered(session, capsule));
      await audit(session, entryOf(traceId, capsule, 'copied'));
      const [limits, baggage] = [await readLimits(session, capsule), await packRows(session, capsule)];
      return { databases, limits, baggage };
    },
    (session, { databases }) =>
      endSessions(
        context,
        session,
        databases.map(({ name }) => name),
      ),
  );
}

async function shutTwins({ to: { context } }: Way, databases: readonly Moving[]): Promise<void> {
  const names = databases.map(({ name }) => name);
  await withCut(
    context,
    async (session, cut) => {
      const observed = [];
      for (const name of names) observed.push({ name, ...(await observe(session, name)) });
      await cut(observed);
    },
    (session) => endSessions(context, session, names),
  );
}

/** Once this transaction has committed, the Capsule is on the target, whatever the other servers have noted. */
async function land(
  { capsule, from, to: { context } }: Way,
  traceId: string,
  attempt: string,
  { databases, limits, baggage }: Left,
): Promise<void> {
  const verifiers = new Map<string, string>();
  for (const one of databases)
    verifiers.set(one.name, await verifierOf(context, { capsule, app: one.app }, one));
  await context.connections.transaction(async (session) => {
    await lockPlace(session, capsule);
    const arrival = await findArrival(session, capsule);
    if (arrival?.landed) return;
    requireAttempt(arrival, attempt);
    const twins = await arrivingDatabases(session, capsule);
    const names = databases.map(({ name }) => name).sort();
    if (twins.toSorted().join() !== names.join()) throw new Error('the copies are not those of the source');
    await seize(
      context,
      session,
      names.map((name) => ({ name, database: 'valid', role: true })),
    );
    await forgetDeparture(session, capsule);
    await unpackRows(session, capsule, baggage);
    for (const one of databases) {
      const verifier = verifiers.get(one.name) ?? '';
      const statements = admittingStatements(one.name, verifier, admissionOf(context, one, limits));
      await session.run('admit workload', statements);
    }
    await markLanded(session, capsule);
    await audit(session, entryOf(traceId, capsule, `landed from ${from.name}`));
    context.failpoint('move:before-landing');
  });
}

/**
 * Completes the move of a Capsule that has landed. The source forgets its principal before anybody is told of the new
 * place.
 */
export async function endMove(servers: Servers, traceId: string, way: Way): Promise<string[]> {
  const { capsule, main, from, to } = way;
  main.failpoint('move:after-landing');
  await from.context.connections.transaction(async (session) => {
    await lockPlace(session, capsule);
    await lockCapsule(session, capsule, 'UPDATE');
    if ((await findDeparture(session, capsule))?.state === 'gone') return;
    await advanceDeparture(session, capsule, 'gone');
    await leaveRest(session, capsule);
    await audit(session, entryOf(traceId, capsule, `left for ${to.name}`));
    main.failpoint('move:before-leaving');
  });
  main.failpoint('move:after-leaving');
  await main.connections.transaction((session) => noteMoved(session, capsule, to.name));
  main.failpoint('move:after-placement');
  return clearRests(servers, traceId, capsule, to.name);
}
