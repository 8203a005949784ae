import { BrokerError } from '@space/contracts/client';
import type { DatabaseLimits, DatabaseUsage } from '../../brokers/database.ts';
import { type Finding, no, yes } from '../../conditions.ts';
import type { Context } from '../../context.ts';
import { type Capsule, SECRET, type SecretObject } from '../../kinds.ts';
import { ANNOTATION } from '../../names.ts';
import type { Step } from '../../step.ts';
import { coarse, quantity, USAGE_MS } from '../coarse.ts';
import { bytesOf } from '../quantity.ts';

/** So long it is believed where a Capsule is over its quota. */
export const USAGE_SOON_MS = 60_000;

const PROVISIONED = yes('Ready', 'The Capsule is known to the database broker.');

/** Tells the broker what the Capsule may have; the note of it goes into the Secret with whatever else is written there. */
export async function tellLimits(
  { database, databaseUsages }: Context,
  capsule: Capsule,
  signal: AbortSignal,
): Promise<Readonly<Record<string, string>>> {
  const { name, uid = '' } = capsule.metadata;
  const limits = limitsOf(capsule);
  databaseUsages.note(uid, await database.limits(name, limits, signal));
  return { [ANNOTATION.databaseLimits]: noteOf(limits) };
}

/**
 * The broker knows what the Capsule may have, told again when that changes, and what it holds is known. Between that
 * nobody is asked; a broker that is away for a moment changes nothing of what was heard before.
 */
export async function ensureLimits(
  context: Context,
  capsule: Capsule,
  secret: SecretObject,
  signal: AbortSignal,
): Promise<void> {
  const { databaseUsages: usages, writer } = context;
  const { uid = '' } = capsule.metadata;
  if (secret.metadata.annotations?.[ANNOTATION.databaseLimits] !== noteOf(limitsOf(capsule))) {
    const annotations = await tellLimits(context, capsule, signal);
    await writer.merge(SECRET, secret, { metadata: { annotations } }, signal);
    return;
  }
  const isOver = knownUsage(context, capsule).finding.reason === 'QuotaExceeded';
  const believedMs = isOver && usages.last(uid) !== undefined ? USAGE_SOON_MS / 2 : USAGE_MS;
  if (usages.isDue(uid, believedMs, capsule.status?.usage?.database !== undefined))
    await ask(context, capsule, uid, signal);
}

/** What is known of its databases, as the condition and the status tell it. */
export function knownUsage(context: Context, capsule: Capsule): Step<string> {
  const usage = context.databaseUsages.last(capsule.metadata.uid ?? '');
  if (usage === undefined) return { finding: before(capsule) ?? PROVISIONED };
  const shown = coarse(usage, bytesOf(capsule.status?.usage?.database));
  return { finding: judge(usage, shown), output: shown };
}

const limitsOf = ({ spec }: Capsule): DatabaseLimits => ({
  bytes: bytesOf(spec.quota?.database),
  connections: spec.database?.connections,
});

async function ask(
  { database, databaseUsages, log }: Context,
  capsule: Capsule,
  uid: string,
  signal: AbortSignal,
): Promise<void> {
  const { name } = capsule.metadata;
  try {
    databaseUsages.note(uid, await database.limits(name, limitsOf(capsule), signal));
  } catch (error) {
    if (!(error instanceof BrokerError)) throw error;
    log.debug({ capsule: name, err: error }, 'what the databases hold could not be asked');
    databaseUsages.note(uid);
  }
}

const noteOf = ({ bytes, connections }: DatabaseLimits) =>
  `bytes=${bytes ?? 'default'},connections=${connections ?? 'default'}`;

/** What an operator before this one found out. */
function before(capsule: Capsule): Finding | undefined {
  const known = capsule.status?.conditions?.find(({ type }) => type === 'DatabaseReady');
  if (known?.reason === 'NearQuota') return yes('NearQuota', known.message);
  return known?.reason === 'QuotaExceeded' ? no('QuotaExceeded', known.message) : undefined;
}

function judge({ standing, limitBytes }: DatabaseUsage, shown: string): Finding {
  const held = `The databases of this Capsule hold ${shown} of ${quantity(limitBytes)} (spec.quota.database)`;
  switch (standing) {
    case 'ok':
      return PROVISIONED;
    case 'near':
      return yes('NearQuota', `${held}. Beyond it they take nothing more.`);
    case 'full':
      return no(
        'QuotaExceeded',
        `${held}. Each takes one connection now, for as long as they do not grow: delete with TRUNCATE or DROP TABLE, or DELETE and VACUUM, until less than 95 % is used, or raise the quota.`,
      );
    case 'closed':
      return no(
        'QuotaExceeded',
        `${held}, and are closed: they went on growing. Raise the quota, then delete.`,
      );
  }
}
