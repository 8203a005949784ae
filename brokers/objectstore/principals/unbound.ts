import type { Logger } from '@space/broker-kit';
import type { Connections, Session } from '@space/broker-kit/postgres';
import type { Bindings, CapsuleBinding, WorkloadBinding } from './bindings.ts';
import type { Bound } from './epochs.ts';
import type { PrefixNames } from './prefix-names.ts';
import { putCapsuleMac } from './rows.ts';

interface UnboundParts {
  readonly connections: Pick<Connections, 'transaction'>;
  readonly bindings: Bindings;
  readonly prefixNames: PrefixNames;
  readonly log: Logger;
}

/**
 * Binds rows of a version that did not bind their kind. A row with another prefix than the names give stays unbound,
 * and so refused.
 */
export function bindUnbound(
  { connections, bindings, prefixNames, log }: UnboundParts,
  bound: Bound,
): Promise<void> {
  return connections.transaction(async (session) => {
    if (!bound.capsules) await bindCapsules(session);
    if (!bound.workloads) await bindWorkloads(session);
  });

  async function bindCapsules(session: Session): Promise<void> {
    const rows = await session.run<{ [column: string]: unknown } & CapsuleBinding>(
      'find unbound capsules',
      `SELECT c.capsule_id AS capsule, c.life AS incarnation, s.place AS prefix, c.principal
       FROM broker.capsule c JOIN broker.store s ON s.capsule_id = c.capsule_id AND s.life = c.life
       WHERE c.principal IS NOT NULL AND s.mac IS NULL FOR UPDATE`,
    );
    for (const row of rows) {
      const { capsule, incarnation, prefix } = row;
      if (prefixNames.capsule(capsule, incarnation) !== prefix)
        log.error({ capsule }, 'the prefix of a Capsule is not the one derived from its name');
      else await putCapsuleMac(session, capsule, bindings.capsule.mac(row));
    }
  }

  async function bindWorkloads(session: Session): Promise<void> {
    const rows = await session.run<{ [column: string]: unknown } & WorkloadBinding>(
      'find unbound workloads',
      `SELECT w.capsule_id AS capsule, w.app_id AS app, w.life AS incarnation, w.generation, s.place AS "capsulePrefix", w.place AS prefix,
              w.principal
       FROM broker.workload w JOIN broker.store s ON s.capsule_id = w.capsule_id AND s.life = w.life
       WHERE w.state = 'ready' AND w.mac IS NULL FOR UPDATE OF w`,
    );
    for (const row of rows) {
      const { capsule, app, incarnation, generation, capsulePrefix, prefix } = row;
      const named =
        prefixNames.capsule(capsule, incarnation) === capsulePrefix &&
        prefixNames.workload(capsulePrefix, app, generation) === prefix;
      if (!named)
        log.error({ capsule, app }, 'the prefix of a workload is not the one derived from its name');
      else
        await session.run(
          'bind workload',
          'UPDATE broker.workload SET mac = $3 WHERE capsule_id = $1 AND app_id = $2',
          [capsule, app, bindings.workload.mac(row)],
        );
    }
  }
}
