import { randomBytes } from 'node:crypto';
import type { Round } from '@space/broker-kit';
import { closeRegistry } from '@space/broker-kit/postgres';
import { audit } from '@space/broker-kit/principals';
import type { Context } from '../context.ts';
import { decideRepairs, type Isolation, type Repair } from '../isolation/drift.ts';
import { judge, readServerFacts } from '../isolation/preflight.ts';
import { within } from '../isolation/statements.ts';
import { surveyIsolation } from '../isolation/survey.ts';
import { lockDatabase, unknownObjects } from '../registry/rows.ts';

type Surveyed = Isolation & { readonly capsule: string; readonly app: string };

/** Restores roles, grants and limits that somebody changed by hand, and counts those that it cannot restore. */
export function repairDrift(context: Context, acceptedOpen: readonly string[]): Round {
  const { connections, metrics, connectionLimit, log } = context;
  return {
    name: 'drift',
    gapMs: 60_000,
    run: async (stopping) => {
      await closeRegistry(connections);
      const facts = await readServerFacts(connections);
      metrics.openDatabases.set(facts.openDatabases.length);
      for (const finding of judge(facts, { acceptedOpen, connections: connectionLimit }).refusals) {
        log.error({ finding }, 'the server is no longer safe');
      }
      metrics.unknownObjects.set((await connections.session(unknownObjects)).length);
      metrics.unrepaired.reset();
      for (const isolation of await connections.session((session) => surveyIsolation(session))) {
        for (const { kind } of decideRepairs(isolation, connectionLimit)) {
          if (stopping.aborted) return;
          const mended = await tryToMend(context, isolation, kind);
          if (mended) metrics.repaired.labels(kind).inc();
          else metrics.unrepaired.labels(kind).inc();
        }
      }
    },
  };
}

/**
 * Repairs each difference in a transaction of its own, so that one that cannot be repaired does not prevent the others.
 */
async function tryToMend(context: Context, isolation: Surveyed, kind: Repair['kind']): Promise<boolean> {
  const { capsule, app } = isolation;
  const traceId = randomBytes(16).toString('hex');
  const about = { trace_id: traceId, capsule, app, kind };
  try {
    const mended = await mend(context, isolation, kind, traceId);
    context.log.warn(about, mended ? 'drift mended' : 'drift cannot be mended');
    return mended;
  } catch (error) {
    context.log.error({ ...about, err: error }, 'drift cannot be mended');
    return false;
  }
}

function mend(context: Context, workload: Surveyed, kind: Repair['kind'], traceId: string): Promise<boolean> {
  const { capsule, app, name } = workload;
  return context.connections.transaction(async (session) => {
    const row = await lockDatabase(session, { capsule, app });
    if (row?.state !== 'ready' || row.name !== name) return true;
    const find = async () => {
      const [isolation] = await surveyIsolation(session, name);
      return isolation && decideRepairs(isolation, context.connectionLimit).find((one) => one.kind === kind);
    };
    // Checked again under the lock, since the survey may be out of date.
    const repair = await find();
    if (repair === undefined) return true;
    if (repair.statements.length === 0) return false;
    await session.run(`mend ${kind}`, within('cut', repair.statements));
    // Since PostgreSQL 16, revoking a membership that another role granted succeeds without an effect.
    if ((await find()) !== undefined) return false;
    await audit(session, {
      traceId,
      operation: 'upkeep.repair',
      authority: 'broker',
      capsule,
      app,
      outcome: kind,
    });
    return true;
  });
}
