import type { Context } from '../context.ts';
import { DEPLOYMENT, type Deployment } from '../kinds.ts';
import { ANNOTATION, type SpaceNames } from '../names.ts';

/** Admission learns of the class a moment after us, so that the first question may come too early. */
export const AGAIN_MS = 5_000;

/** Whether admission refused its pods for the sandbox's sake, and for nothing that would still stand in the way. */
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
 * After a long loss of the sandbox the cluster's own controller would ask for the pods again only after a quarter of an
 * hour. Any change of the Deployment makes it ask now. Answers whether that may be needed once more.
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
