import type { TokenDigest } from '@space/broker-kit';
import {
  about,
  authorisedCapsule,
  type Call,
  registerCapsule,
  unlessTaken,
} from '@space/broker-kit/principals';
import type { Context } from '../context.ts';
import type { Workload } from '../core/names.ts';
import { lockDatabase } from '../registry/rows.ts';
import { withSpare } from './attempts.ts';
import { type Ensured, ensureDatabase, reopen } from './ensure.ts';

/** Registers a Capsule with its principal and makes the Capsule's own database, in one transaction. */
export function provisionCapsule(
  context: Context,
  call: Call,
  capsule: string,
  principal: TokenDigest,
): Promise<Ensured> {
  const workload = { capsule, app: '' };
  const entry = { ...about(call, 'capsule.provision', 'provisioner'), capsule };
  return unlessTaken(
    openDatabase(context, workload, async (session, attempt) => {
      const { incarnation } = await registerCapsule(session, capsule, principal);
      const row = await lockDatabase(session, workload);
      const ensured = await ensureDatabase(context, session, { workload, row, incarnation, attempt, entry });
      context.failpoint('provision:before-commit');
      return ensured;
    }),
  );
}

/** Makes or finds the database of one workload of the Capsule. */
export function createApp(context: Context, call: Call, capsule: string, app: string): Promise<Ensured> {
  const workload = { capsule, app };
  const entry = { ...about(call, 'capsule.app.create', 'capsule'), capsule, app };
  return openDatabase(context, workload, async (session, attempt) => {
    const [{ incarnation }, row] = await Promise.all([
      authorisedCapsule(session, call, capsule, 'apps'),
      lockDatabase(session, workload),
    ]);
    const ensured = await ensureDatabase(context, session, { workload, row, incarnation, attempt, entry });
    context.failpoint('create:before-commit');
    return ensured;
  });
}

/** Opens the database again after an eviction, before the new password is returned. */
async function openDatabase(
  context: Context,
  workload: Workload,
  act: Parameters<typeof withSpare<Ensured>>[1],
): Promise<Ensured> {
  const outcome = await withSpare(context, act);
  context.failpoint('evict:before-reopen');
  if (outcome.evicting) await reopen(context, workload, outcome.name);
  return outcome;
}
