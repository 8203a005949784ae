import type { Finding } from '../../conditions.ts';
import type { Context } from '../../context.ts';
import { ASSISTANT } from '../../kinds.ts';
import { aboutOf, type Workload } from '../identity.ts';
import { reflectedFinding } from './judge.ts';
import type { Envelopes } from './seal.ts';
import { readSealed, writeSealed } from './sealed.ts';

/**
 * Asks the replicas which values their hosts returned too often, and marks these in the sealed Secret: they are not
 * used again until a person has entered a new value, even if the replicas restart. Returns a finding about them.
 */
export async function markReflected(
  context: Context,
  workload: Workload,
  sent: Envelopes,
  signal: AbortSignal,
): Promise<Finding | undefined> {
  if (Object.keys(sent).length === 0) return undefined;
  const { assistant, manifest } = workload;
  const { id } = manifest.platform;
  const suspended = await context.gateways.suspended(aboutOf(assistant, id), signal);
  if (suspended.length === 0) return undefined;
  const { secret, inputs } = await readSealed(context, assistant, id, signal);
  const marked = suspended.filter((key) => inputs[key] !== undefined && inputs[key].envelope === sent[key]);
  if (marked.length === 0) return undefined;
  const entries = Object.entries(inputs).map(
    ([key, input]) => [key, marked.includes(key) ? { ...input, reflected: true } : input] as const,
  );
  await writeSealed(context, workload, { secret, inputs: Object.fromEntries(entries) }, signal);
  context.events.record(ASSISTANT, assistant, {
    type: 'Warning',
    reason: 'InputReflected',
    action: 'Suspend',
    note: `The host of ${marked.join(', ')} returned the value in several answers, where it was replaced by stars; it is no longer used. Exchange it there and enter it again.`,
  });
  return reflectedFinding(marked, workload.egress.policy.inputs);
}
