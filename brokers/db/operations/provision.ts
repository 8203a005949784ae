import { ServiceError, type TokenDigest } from '@space/broker-kit';
import { SQLSTATE, StepError } from '@space/broker-kit/postgres';
import { about, audit, authorisedCapsule, type Call, registerCapsule } from '@space/broker-kit/principals';
import type { Context } from './context.ts';
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
      const { life } = await registerCapsule(session, capsule, principal);
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
