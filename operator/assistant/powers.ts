import { newPowers, parseManifest } from '@space/manifests';
import { type Finding, no } from '../conditions.ts';
import type { Context } from '../context.ts';
import { ASSISTANT, type Deployment } from '../kinds.ts';
import { quoted, type Refused } from '../refusals.ts';
import { ApiError, isRefusedWrite, TransportError } from '../runtime/errors.ts';
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
 * compare. An API server that refuses Events does not prevent it; one that fails to store them delays it, which the
 * result says.
 */
export async function tellWiderPowers(
  context: Context,
  { assistant }: Workload,
  note: string,
  signal: AbortSignal,
): Promise<Refused | undefined> {
  const happening = { type: 'Warning', reason: 'PowersWidened', action: 'Upgrade', note } as const;
  try {
    await context.events.announce(ASSISTANT, assistant, happening, signal);
  } catch (error) {
    if (!(error instanceof ApiError || error instanceof TransportError)) throw error;
    if (!isFinal(error)) return { finding: untold(error), retry: error };
    context.log.warn({ err: error }, 'an Event about new powers could not be recorded');
  }
  return undefined;
}

/** Whether the API server would answer another attempt in the same way. */
const isFinal = (error: unknown): boolean =>
  isRefusedWrite(error) || (error instanceof ApiError && error.status < 500 && error.status !== 429);

function untold(error: ApiError | TransportError): Finding {
  const why = error instanceof ApiError ? `it said ${quoted(error.said)}` : 'it does not answer';
  return no(
    'WriteRefused',
    `The API server does not store the Event about what this version may do beyond the one that runs: ${why}. It is retried, and the version is rolled out after that.`,
  );
}
