import type { OperatorProcess } from '../../operator/testing/program.ts';
import { eventually } from '../../testing/eventually.ts';

const LIMIT_MS = 5 * 60_000;
/** The seconds without work that `atRest` requires. */
export const QUIET_SECONDS = 2;

/** Waits until the operator's queues were empty and nothing was reconciled for two seconds. */
export async function atRest(operator: OperatorProcess): Promise<void> {
  const look = async () => {
    const seen = await operator.measure();
    const idle = seen.sum('workqueue_depth') + seen.sum('controller_runtime_active_workers') === 0;
    return { idle, reconciles: seen.sum('controller_runtime_reconcile_total') };
  };
  await eventually(
    async () => {
      const before = await look();
      await new Promise((resolve) => setTimeout(resolve, QUIET_SECONDS * 1000));
      const after = await look();
      return before.idle && after.idle && before.reconciles === after.reconciles;
    },
    { what: 'the operator is at rest', within: LIMIT_MS },
  );
}
