import { newPowers, parseManifest } from '@space/manifests';
import type { Context } from '../context.ts';
import { ASSISTANT, type Deployment } from '../kinds.ts';
import { ApiError } from '../runtime/errors.ts';
import type { Workload } from './identity.ts';
import { readRunning, runsManifest } from './running.ts';

/** An Event with more powers than these would not be read; `assistant-manifest diff` shows all of them. */
const MOST_LISTED = 5;

/** What the new manifest permits and the running one does not, as a sentence; undefined if there is nothing. */
export async function widerPowers(
  context: Pick<Context, 'client'>,
  workload: Workload,
  running: Deployment | undefined,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (runsManifest(running, workload)) return undefined;
  // If somebody deleted the ConfigMap, no Event is sent, and the next version is compared again.
  const text = (await readRunning(context, workload, running, signal))?.text;
  const old = text === undefined ? undefined : parseManifest(text);
  if (!old?.ok) return undefined;
  const powers = newPowers(old.manifest, workload.manifest).map(({ says }) => says);
  if (powers.length === 0) return undefined;
  const listed = powers.slice(0, MOST_LISTED).join('; ');
  const more = powers.length > MOST_LISTED ? `; and ${powers.length - MOST_LISTED} more` : '';
  const versions = [old.manifest, workload.manifest].map(({ platform }) => platform.version);
  return `Version ${versions[1]} may do what ${versions[0]} could not: it ${listed}${more}.`;
}

/**
 * Records the Event before the new powers are rolled out, since an operator that ends right after that finds nothing to
 * compare. An API server that refuses Events does not prevent it.
 */
export async function tellWiderPowers(
  context: Context,
  { assistant }: Workload,
  note: string,
  signal: AbortSignal,
): Promise<void> {
  const happening = { type: 'Warning', reason: 'PowersWidened', action: 'Upgrade', note } as const;
  try {
    await context.events.announce(ASSISTANT, assistant, happening, signal);
  } catch (error) {
    const isFinal = error instanceof ApiError && error.status < 500 && error.status !== 429;
    if (!isFinal) throw error;
    context.log.warn({ err: error }, 'an Event about new powers could not be recorded');
  }
}
