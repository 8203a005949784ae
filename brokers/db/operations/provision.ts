import { refusal, ServiceError, sameDigest, type TokenDigest } from '@space/broker-kit';
import { decideProvision, mayAct } from '../core/decide.ts';
import { audit, insertCapsule, isRetired, lockCapsule, reviveCapsule } from '../registry/rows.ts';
import type { Session } from '../server/connections.ts';
import { SQLSTATE, StepError } from '../server/errors.ts';
import type { Call, Context } from './context.ts';
import { type Ensured, ensureDatabase, withSpare } from './ensure.ts';

/** Registers a Capsule with its principal and makes the Capsule's own database; in one transaction. */
export async function provisionCapsule(
  context: Context,
  call: Call,
  capsule: string,
  principal: TokenDigest,
): Promise<Ensured> {
  try {
    return await withSpare(context, async (session, reserved) => {
      const life = await registerCapsule(session, capsule, principal);
      const ensured = await ensureDatabase(context, session, { capsule, app: '' }, life, reserved);
      const { outcome } = ensured;
      await audit(session, { ...about(call, 'capsule.provision', 'provisioner'), capsule, outcome });
      context.failpoint('provision:before-commit');
      return ensured;
    });
  } catch (error) {
    // The principal is another Capsule's; only the provisioner, who chose it, learns so.
    const taken = error instanceof StepError && error.code === SQLSTATE.uniqueViolation;
    throw taken ? new ServiceError('conflict', 'the principal is in use', { cause: error }) : error;
  }
}

/** Returns the life that the Capsule is in. */
async function registerCapsule(session: Session, capsule: string, principal: TokenDigest): Promise<number> {
  for (;;) {
    const row = await lockCapsule(session, capsule, 'UPDATE');
    const same = row !== undefined && row.principal !== null && sameDigest(row.principal, principal);
    const decision = decideProvision(row, same);
    if (decision === 'conflict') throw new ServiceError('conflict', 'another principal, or not finalized');
    if (decision === 'same life') return row?.life ?? 1;
    if (await isRetired(session, principal)) throw new ServiceError('conflict', 'the principal is retired');
    if (decision === 'next life' && row !== undefined) {
      const life = row.life + 1;
      await reviveCapsule(session, capsule, life, principal);
      return life;
    }
    if (await insertCapsule(session, capsule, principal)) return 1;
  }
}

/** Makes or finds the database of one workload of the Capsule. */
export function createApp(context: Context, call: Call, capsule: string, app: string): Promise<Ensured> {
  return withSpare(context, async (session, reserved) => {
    const { life } = await authorisedCapsule(session, call, capsule, 'apps');
    const ensured = await ensureDatabase(context, session, { capsule, app }, life, reserved);
    await audit(session, {
      ...about(call, 'capsule.app.create', 'capsule'),
      capsule,
      app,
      outcome: ensured.outcome,
    });
    context.failpoint('create:before-commit');
    return ensured;
  });
}

/** Locks the Capsule and checks again that the principal is its own: since the look-up it may have been retired. */
export async function authorisedCapsule(
  session: Session,
  call: Call,
  capsule: string,
  operation: 'apps' | 'drop',
): Promise<{ life: number; state: 'active' | 'dropping' }> {
  const row = await lockCapsule(session, capsule, operation === 'apps' ? 'SHARE' : 'UPDATE');
  const { principal } = call;
  if (row?.principal == null || principal === undefined || !sameDigest(row.principal, principal))
    throw refusal();
  if (!mayAct(row.state, operation)) throw refusal();
  return { life: row.life, state: row.state === 'active' ? 'active' : 'dropping' };
}

/** The fields of an audit entry that say who asked for what. */
export function about(call: Call, operation: string, authority: 'provisioner' | 'capsule') {
  return { traceId: call.traceId, operation, authority };
}
