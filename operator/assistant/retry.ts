import type { Context } from '../context.ts';
import { type Assistant, DEPLOYMENT, type Deployment } from '../kinds.ts';
import { ANNOTATION, type SpaceNames } from '../names.ts';

/** Admission sees a new RuntimeClass a moment after the operator does, so the first attempt may come too early. */
const AGAIN_MS = 5_000;
/** About as rarely as the Deployment controller itself tries in the end. */
const RARELY_MS = 900_000;

const refusedIn = (deployment: Deployment | undefined) =>
  deployment?.status?.conditions?.find(({ type, status }) => type === 'ReplicaFailure' && status === 'True');

/** Whether admission refused the pods for their sandbox: mostly because it was missing. */
export function refusedForSandbox(
  { space, runtimeClass }: Pick<SpaceNames, 'space' | 'runtimeClass'>,
  deployment: Deployment | undefined,
): boolean {
  const message = refusedIn(deployment)?.message ?? '';
  return (
    message.includes(`ValidatingAdmissionPolicy '${space}-sandbox' `) ||
    message.includes(`RuntimeClass "${runtimeClass}" not found`)
  );
}

/**
 * How long to wait after an attempt: as long as the pods had been refused by then since the sandbox is there, within
 * bounds. The policy may also refuse what does not end by itself, such as an annotation that somebody's webhook adds,
 * and the condition goes on to say why the first attempt failed.
 */
export function waitOf(
  { status }: Pick<Assistant, 'status'>,
  deployment: Deployment | undefined,
  now: number,
): number {
  const sandbox = status?.conditions?.find(({ type }) => type === 'SandboxReady');
  if (sandbox?.status !== 'True') return AGAIN_MS;
  const begun = [sandbox.lastTransitionTime, refusedIn(deployment)?.lastTransitionTime].map((time) =>
    time === undefined ? Number.NaN : new Date(time).getTime(),
  );
  const since = Math.max(...begun.filter((at) => !Number.isNaN(at)));
  return Math.min(Math.max(now - since, AGAIN_MS), RARELY_MS);
}

/**
 * After a long loss of the sandbox, the Deployment controller would try to create the pods only after up to a quarter
 * of an hour. Any change of the Deployment makes it try at once. Returns when another change may be needed.
 */
export async function askAgain(
  context: Context,
  assistant: Assistant,
  deployment: Deployment | undefined,
  signal: AbortSignal,
): Promise<number | undefined> {
  if (!deployment || !refusedForSandbox(context.names, deployment)) return undefined;
  const said = Date.parse(deployment.metadata.annotations?.[ANNOTATION.retried] ?? '') || 0;
  const now = context.now();
  // A time that is still to come is of another clock, or of another hand, and would put the attempt off until then.
  const last = said > Date.parse(now) ? 0 : said;
  // The wait is that of the last attempt; one that grew with the time since then would never be over.
  const leftMs = last + waitOf(assistant, deployment, last) - Date.parse(now);
  if (leftMs > 0) return Math.max(leftMs, AGAIN_MS);
  const annotations = { [ANNOTATION.retried]: now };
  await context.writer.merge(DEPLOYMENT, deployment, { metadata: { annotations } }, signal);
  return waitOf(assistant, deployment, Date.parse(now));
}
