import type { Context } from '../context.ts';
import { DEPLOYMENT, type Deployment } from '../kinds.ts';
import { ANNOTATION, type SpaceNames } from '../names.ts';

/** Admission sees a new RuntimeClass a moment after the operator does, so the first attempt may come too early. */
export const AGAIN_MS = 5_000;

/** Whether admission refused the pods only because the sandbox was missing. */
export function refusedForSandbox(
  { space, runtimeClass }: Pick<SpaceNames, 'space' | 'runtimeClass'>,
  deployment: Deployment | undefined,
): boolean {
  const failure = deployment?.status?.conditions?.find(
    ({ type, status }) => type === 'ReplicaFailure' && status === 'True',
  );
  const message = failure?.message ?? '';
  return (
    message.includes(`ValidatingAdmissionPolicy '${space}-sandbox' `) ||
    message.includes(`RuntimeClass "${runtimeClass}" not found`)
  );
}

/**
 * After a long loss of the sandbox, the Deployment controller would try to create the pods only after up to a quarter
 * of an hour. Any change of the Deployment makes it try at once. Returns whether another change may be needed.
 */
export async function askAgain(
  context: Context,
  deployment: Deployment | undefined,
  signal: AbortSignal,
): Promise<boolean> {
  if (!deployment || !refusedForSandbox(context.names, deployment)) return false;
  const last = Date.parse(deployment.metadata.annotations?.[ANNOTATION.retried] ?? '') || 0;
  const now = context.now();
  if (Date.parse(now) - last >= AGAIN_MS) {
    const annotations = { [ANNOTATION.retried]: now };
    await context.writer.merge(DEPLOYMENT, deployment, { metadata: { annotations } }, signal);
  }
  return true;
}
