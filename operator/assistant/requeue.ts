import { type Findings, isTrue } from '../conditions.ts';
import type { Context } from '../context.ts';
import type { Facts } from './facts.ts';
import type { Plan } from './plan.ts';
import { GRANTED_MS, UNGRANTED_MS } from './steps/grant.ts';
import { REFUSED_MS } from './steps/usage.ts';

const LOOK_AGAIN_MS = 15_000;
/** The longest wait before a starting pod is checked again: it may wait for a Secret that somebody deleted. */
const STARTING_MS = 120_000;
/** Stored inputs, and whether their hosts return the values, are read again after this time. */
const INPUTS_MS = 60_000;

type Surroundings = Pick<Context, 'appUsages' | 'grantKey' | 'now' | 'objectStore' | 'sweepMs'>;
type Known = Pick<Facts, 'assistant' | 'entered' | 'sealed'>;

/** What the steps say about the next look. */
interface Outcome {
  readonly findings: Findings;
  readonly granted?: boolean | undefined;
  /** When a step has to be taken again, at the latest. */
  readonly requeueAfterMs?: number | undefined;
}

/**
 * When the Assistant is looked at again: at the earliest of what the steps ask for and what has to be read again.
 * Pods that run on need the latter, too, while others are refused.
 */
export function nextLook(
  context: Surroundings,
  facts: Known,
  plan: Pick<Plan, 'findings'>,
  outcome: Outcome,
): number {
  const { requeueAfterMs = Number.POSITIVE_INFINITY } = outcome;
  return Math.min(requeueAfterMs, readAgain(context, facts, plan, outcome));
}

/** Secrets are not watched, so one that can resolve a finding or change a value is read again soon. */
function readAgain(
  context: Surroundings,
  { assistant, entered, sealed }: Known,
  { findings }: Pick<Plan, 'findings'>,
  { granted, findings: now }: Outcome,
): number {
  const isLostId = findings['Accepted']?.reason === 'DuplicateIdentifier';
  if (isLostId || findings['InputsBound']?.status === 'False') return LOOK_AGAIN_MS;
  // Usage is read only after the Assistant runs, so that its start does not wait for that.
  const isUnasked = !context.appUsages.isFresh(assistant.metadata.uid ?? '', Number.POSITIVE_INFINITY);
  if (now['WorkloadReady'] && isTrue(now['WorkloadReady']) && isUnasked) return LOOK_AGAIN_MS;
  const isRefused = [now['DatabaseReady'], now['ObjectStoreReady']].some(
    (finding) => finding?.reason === 'BrokerRefused',
  );
  if (isRefused) return REFUSED_MS;
  const grantsMs = granted ? GRANTED_MS : UNGRANTED_MS;
  const longestMs = context.objectStore && context.grantKey ? grantsMs : context.sweepMs();
  const hasInputs = entered.values.size + Object.keys(sealed.inputs).length > 0;
  const starting = now['WorkloadReady']?.reason === 'Starting' ? startingMs(context, assistant) : longestMs;
  return Math.min(starting, hasInputs ? INPUTS_MS : longestMs, longestMs);
}

/**
 * Waits for as long as the Assistant has been starting already, within bounds, so that one that never starts is checked
 * rarely.
 */
function startingMs(context: Surroundings, { status }: Facts['assistant']): number {
  const since = status?.conditions?.find(({ type }) => type === 'WorkloadReady')?.lastTransitionTime;
  const lasts = since === undefined ? 0 : Date.parse(context.now()) - Date.parse(since);
  return Math.max(LOOK_AGAIN_MS, Math.min(STARTING_MS, lasts));
}
