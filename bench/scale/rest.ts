import type { OperatorProcess } from '../../operator/testing/program.ts';
import { eventually } from '../../testing/eventually.ts';

/** The metric with the number of writes to the API server. */
export const WRITES = 'space_operator_writes_total';
const LIMIT_MS = 5 * 60_000;
/** The seconds without work that `atRest` requires. */
export const QUIET_SECONDS = 2;

/**
 * Waits until the operator's queues were empty before and after two seconds in which it wrote nothing. It may have looked at
 * some objects: of many, one is always due for its look every ten minutes.
 */
export async function atRest(operator: OperatorProcess): Promise<void> {
  const look = async () => {
    const seen = await operator.measure();
    const idle = seen.sum('workqueue_depth') + seen.sum('controller_runtime_active_workers') === 0;
    return { idle, writes: seen.sum(WRITES) };
  };
  await eventually(
    async () => {
      const before = await look();
      await new Promise((resolve) => setTimeout(resolve, QUIET_SECONDS * 1000));
      const after = await look();
      return before.idle && after.idle && before.writes === after.writes;
    },
    { what: 'the operator is at rest', within: LIMIT_MS },
  );
}
