import { audit } from '@space/broker-kit/principals';
import type { PrincipalsContext } from './context.ts';

/** What has to be registered again after an exchange. */
export interface Exchanged {
  readonly capsules: readonly string[];
  readonly workloads: number;
}

/**
 * Ends every principal after a restore of the registry, since it is unknown which of them had ended, and sets a higher
 * epoch. They are replaced by digests of nothing until others are registered.
 */
export async function exchangeAll(context: PrincipalsContext, traceId: string): Promise<Exchanged> {
  const exchanged = await context.connections.transaction(async (session) => {
    await context.epochs.goBeyond(session);
    await session.run(
      'retire all principals',
      `INSERT INTO broker.retired_principal (principal, capsule_id)
       SELECT principal, capsule_id FROM broker.workload WHERE principal IS NOT NULL
       UNION SELECT principal, capsule_id FROM broker.capsule WHERE principal IS NOT NULL
       ON CONFLICT DO NOTHING`,
    );
    const digest = 'sha256((gen_random_uuid()::text || gen_random_uuid()::text)::bytea)';
    const workloads = await session.run(
      'exchange workload principals',
      `UPDATE broker.workload SET principal = ${digest}, mac = NULL WHERE principal IS NOT NULL RETURNING 1`,
    );
    const capsules = await session.run<{ capsule: string }>(
      'exchange capsule principals',
      `UPDATE broker.capsule SET principal = ${digest} WHERE principal IS NOT NULL RETURNING capsule_id AS capsule`,
    );
    await session.run('unbind capsules', 'UPDATE broker.store SET mac = NULL');
    const operation = 'administrator.restore-principals';
    for (const { capsule } of capsules)
      await audit(session, { traceId, operation, authority: 'administrator', capsule, outcome: 'exchanged' });
    return { capsules: capsules.map(({ capsule }) => capsule).toSorted(), workloads: workloads.length };
  });
  await context.epochs.anchor();
  await context.leasesLapse();
  return exchanged;
}
