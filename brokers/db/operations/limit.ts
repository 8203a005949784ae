import { ServiceError } from '@space/broker-kit';
import { about, audit, type Call, lockCapsule } from '@space/broker-kit/principals';
import type { Context } from '../context.ts';
import { decideQuota, type Standing, standingOf } from '../core/quota.ts';
import { observeRegistered } from '../isolation/observe.ts';
import { connectionStatements, END_SURPLUS, within } from '../isolation/statements.ts';
import { requireConnections } from '../limits/capacity.ts';
import { connectionsGranted, type Limits, measure, readLimits, writeLimits } from '../limits/rows.ts';
import { seize } from './cut.ts';

/** The limits in force, and the Capsule's usage. */
export interface Standings {
  readonly databaseBytes: number;
  readonly connections: number;
  readonly usedBytes: number;
  readonly standing: Standing;
}

/** Sets the limits of a Capsule and returns its usage; with the same limits again, nothing changes. */
export async function setLimits(
  context: Context,
  call: Call,
  capsule: string,
  wanted: Limits,
): Promise<Standings> {
  const { names, standings } = await write(context, call, capsule, wanted);
  // The server limits new sessions only. What a lower limit gives back may be promised to others already.
  await context.connections.session((session) =>
    session.run('end surplus', END_SURPLUS, [names, standings.connections]),
  );
  return standings;
}

interface Written {
  /** The Capsule's databases. */
  readonly names: readonly string[];
  readonly standings: Standings;
}

function write(context: Context, call: Call, capsule: string, wanted: Limits): Promise<Written> {
  return context.connections.transaction(async (session, attempt) => {
    const known = await lockCapsule(session, capsule, 'UPDATE');
    const row = await readLimits(session, capsule);
    if (known === undefined || row === undefined) throw new ServiceError('not_found', 'no such Capsule');
    if (known.state !== 'active') throw new ServiceError('conflict', `the Capsule is ${known.state}`);
    const connections = wanted.connections ?? context.connectionLimit;
    const databaseBytes = wanted.databaseBytes ?? context.databaseBytes;
    const observed = await observeRegistered(session, capsule);
    const names = observed.map(({ name }) => name);
    const same = row.connections === wanted.connections && row.databaseBytes === wanted.databaseBytes;
    if (!same) {
      if (connections > (row.connections ?? context.connectionLimit))
        requireConnections(
          await connectionsGranted(session, capsule, context.connectionLimit),
          connections,
          0,
          context.connectionLimit,
        );
      await writeLimits(session, capsule, wanted);
      const ofDatabase = row.door === 'tidying' ? 1 : connections;
      const statements = observed.flatMap((one) => connectionStatements(one, connections, ofDatabase));
      // A tenant that changes its own role all the time would win every race.
      if (attempt > 1) await seize(context, session, observed);
      if (statements.length > 0) await session.run('limit connections', within('cut', statements));
      await audit(session, { ...about(call, 'capsule.limits', 'provisioner'), capsule, outcome: 'limited' });
    }
    const sizes = await measure(session, names);
    const usedBytes = [...sizes.values()].reduce((sum, bytes) => sum + bytes, row.shared);
    // Predicts the next check's decision; only that check opens or closes databases. A pause does not end here.
    const { door } = decideQuota(row, usedBytes, databaseBytes, row.until - 1);
    const standing = standingOf(door, usedBytes, databaseBytes);
    return { names, standings: { databaseBytes, connections, usedBytes, standing } };
  });
}
