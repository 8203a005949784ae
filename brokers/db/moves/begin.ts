import { randomBytes } from 'node:crypto';
import { Secret, ServiceError } from '@space/broker-kit';
import { audit, lockCapsule } from '@space/broker-kit/principals';
import { databaseUrl, scramVerifier } from '../core/credentials.ts';
import { type Observed, observe, observeRegistered } from '../isolation/observe.ts';
import { arrivalStatements, lendingStatements } from '../isolation/statements.ts';
import { readLimits } from '../limits/rows.ts';
import { NoSpare, patienceOf, withSpare } from '../operations/attempts.ts';
import { endSessions, seize, withCut } from '../operations/cut.ts';
import { dropRole } from '../operations/finish.ts';
import { forgetLeftoverRole, isLeftoverRole, livingDatabases } from '../registry/rows.ts';
import type { Servers } from '../servers/router.ts';
import { spareFor } from '../spares/pool.ts';
import { requireFit, requireMovable, workloadsIn } from './fit.ts';
import { endMove } from './land.ts';
import { clearArriving, clearRests } from './rest.ts';
import { findArrival, noteArrival, noteArriving } from './rows/arrival.ts';
import { findDeparture, noteDeparture, principalsOf } from './rows/departure.ts';
import { lockPlace, noteMoving, notePrincipals, noteStays } from './rows/placement.ts';
import { endOf, entryOf, type Moving, mainOf, requireAttempt, type Way, whereaboutsOf } from './way.ts';

/** One database to copy: role and database have the same name on both servers, and the password opens nothing else. */
export interface Copy {
  readonly app: string;
  readonly name: string;
  readonly from: string;
  readonly to: string;
}

export type Begun =
  | {
      readonly kind: 'copy';
      readonly from: string;
      readonly attempt: string;
      readonly copies: readonly Copy[];
    }
  /** The Capsule has moved; the servers in `away` did not answer and may still have parts of it. */
  | { readonly kind: 'moved'; readonly away: readonly string[] };

/**
 * Begins to move a Capsule, or continues a move that was interrupted. From now on requests about the Capsule are told
 * to come back, nobody is connected to its databases, and each has an empty counterpart on the target.
 */
export async function beginMove(
  servers: Servers,
  traceId: string,
  capsule: string,
  target: string,
): Promise<Begun> {
  const { server, movingTo } = await whereaboutsOf(servers, capsule);
  if (movingTo !== null && movingTo !== target)
    throw new ServiceError(
      'conflict',
      `the Capsule is being moved to ${movingTo}: end that, or take it back`,
    );
  const to = endOf(servers, capsule, target);
  if (server === target) return { kind: 'moved', away: await clearRests(servers, traceId, capsule, target) };
  const way: Way = { capsule, main: mainOf(servers), from: endOf(servers, capsule, server), to };
  if ((await to.context.connections.session((session) => findArrival(session, capsule)))?.landed)
    return { kind: 'moved', away: await endMove(servers, traceId, way) };

  await clearRests(servers, traceId, capsule, server, target);
  await requireFit(servers, way);
  return copyOf(servers, traceId, way);
}

async function copyOf(servers: Servers, traceId: string, way: Way): Promise<Begun> {
  const { capsule, main, from, to } = way;
  const { failpoint } = main;
  const noted = await main.connections.transaction((session) =>
    noteMoving(session, capsule, from.name, to.name),
  );
  if (!noted) throw new ServiceError('conflict', 'the Capsule was moved in the meantime');
  failpoint('move:after-note');
  const attempt = randomBytes(8).toString('hex');
  const { databases, connections } = await depart(way, traceId, attempt);
  failpoint('move:after-cut');
  const room = { from: from.name, attempt, connections: connections * workloadsIn(databases) };
  if (!(await to.context.connections.transaction((session) => noteArrival(session, capsule, room))))
    return { kind: 'moved', away: await endMove(servers, traceId, way) };
  await clearArriving(to.context, capsule);
  failpoint('move:after-arrival');
  const copies: Copy[] = [];
  for (const { app, name } of databases) {
    const password = new Secret(randomBytes(32).toString('base64url'));
    const verifier = await scramVerifier(main.derivationKeys().current, password);
    await makeTwin(way, attempt, name, verifier);
    failpoint('move:after-twin');
    await lend(way, attempt, name, verifier);
    failpoint('move:after-lending');
    const url = (end: Way['from']) => databaseUrl(name, password, end.context.issued);
    copies.push({ app, name, from: url(from), to: url(to) });
  }
  return { kind: 'copy', from: from.name, attempt, copies };
}

interface Departed {
  readonly databases: readonly Moving[];
  /** The connection limit of each of its Assistants. */
  readonly connections: number;
}

/** Ends access on the source, in a transaction that makes every request fail which is still on its way there. */
async function depart({ capsule, main, from, to }: Way, traceId: string, attempt: string): Promise<Departed> {
  const { context } = from;
  try {
    const { principals, ...departed } = await withCut(
      context,
      async (session, cut) => {
        await lockPlace(session, capsule);
        const row = await lockCapsule(session, capsule, 'UPDATE');
        const databases = await livingDatabases(session, capsule);
        requireMovable(row?.state, databases);
        const observed = await observeRegistered(session, capsule);
        for (const one of observed) requireWhole(one.name, one);
        const limits = await readLimits(session, capsule);
        await noteDeparture(session, capsule, to.name, attempt);
        await cut(observed);
        await audit(session, entryOf(traceId, capsule, `begun to ${to.name}`));
        const connections = limits?.connections ?? context.connectionLimit;
        return { databases, connections, principals: await principalsOf(session, capsule) };
      },
      (session, { databases }) =>
        endSessions(
          context,
          session,
          databases.map(({ name }) => name),
        ),
    );
    await main.connections.transaction((session) => notePrincipals(session, capsule, principals));
    return departed;
  } catch (error) {
    // If no copy was begun before, only the note has changed.
    const begun = await context.connections.session((session) => findDeparture(session, capsule));
    if (error instanceof ServiceError && error.code === 'conflict' && begun === undefined)
      await main.connections.transaction((session) => noteStays(session, capsule, to.name));
    throw error;
  }
}

function requireWhole(name: string, { database, role }: Observed): void {
  if (database !== 'valid' || !role)
    throw new ServiceError(
      'conflict',
      `database ${name} is ${database}, and its role ${role ? 'present' : 'absent'}: repair that first`,
    );
}

/** Creates an empty database for the copy on the target, with a role of the same name. */
async function makeTwin(
  { capsule, to }: Way,
  attempt: string,
  name: string,
  verifier: string,
): Promise<void> {
  const { context } = to;
  await dropLeftover(to, name);
  await withSpare(context, async (session, tried) => {
    requireAttempt(await findArrival(session, capsule), attempt);
    const spare = await spareFor(session, context.spares, tried);
    if (spare === undefined) throw new NoSpare();
    tried.take(spare);
    await noteArriving(session, capsule, name);
    const kept = await forgetLeftoverRole(session, name);
    const statements = arrivalStatements({ spare, name, verifier, kept, patience: patienceOf(tried) });
    await session.run('open database', statements);
  });
}

/**
 * Drops a role of this name on the target, which may remain from an earlier stay of the Capsule or from a copy that was
 * ended. One that the broker has left behind may stay, with the note of it: any tenant of the target can prevent its
 * drop by a grant, which it could give to a new role as well.
 */
async function dropLeftover({ name: server, context }: Way['to'], name: string): Promise<void> {
  const { database, role } = await context.connections.session((session) => observe(session, name));
  if (database === 'absent' && !role) return;
  const done =
    database === 'absent' &&
    (await context.connections.transaction(async (session) => {
      const ours = await isLeftoverRole(session, name);
      const dropped = await dropRole(session, name);
      if (dropped) await forgetLeftoverRole(session, name);
      return dropped || ours;
    }));
  if (!done)
    throw new ServiceError(
      'conflict',
      `server ${server} has a ${database === 'absent' ? 'role' : 'database'} ${name} already, which cannot be dropped`,
    );
}

/** Admits the copying client, once everybody else is disconnected. */
async function lend({ capsule, from }: Way, attempt: string, name: string, verifier: string): Promise<void> {
  const { context } = from;
  await context.connections.transaction(async (session) => {
    await lockPlace(session, capsule);
    requireAttempt(await findDeparture(session, capsule), attempt);
    await seize(context, session, [{ name, database: 'valid', role: true }]);
    await session.run('lend database', lendingStatements(name, verifier));
  });
}
