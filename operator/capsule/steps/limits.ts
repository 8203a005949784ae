import { BrokerError } from '@space/contracts/client';
import type { DatabaseLimits, DatabaseUsage } from '../../brokers/database.ts';
import { type Finding, no, type Reason, yes } from '../../conditions.ts';
import type { Context } from '../../context.ts';
import { type Capsule, SECRET, type SecretObject } from '../../kinds.ts';
import { ANNOTATION } from '../../names.ts';
import type { Step } from '../../step.ts';
import { coarse, quantity, USAGE_MS } from '../coarse.ts';
import { bytesOf } from '../quantity.ts';
import { isTrouble, troubleBefore } from '../usages.ts';

/** A finding that somebody may have resolved is checked again after this time. */
export const USAGE_SOON_MS = 60_000;

const PROVISIONED = yes('Ready', 'The Capsule is known to the database broker.');

const LOST = no(
  'DatabaseLost',
  'The database broker has dropped this Capsule with all its databases, or never knew it, so no URL of its Assistants gives access to anything. A possible cause is an etcd that was restored to an older state. Restore the Capsule from a backup; or, to begin with nothing, delete it and apply it again.',
);

/** Reasons that stay in the condition after a restart of the operator until the broker has been asked again. */
const KEPT_REASONS: ReadonlySet<Reason> = new Set(['QuotaExceeded', 'DatabaseLost']);

/**
 * Sends the Capsule's limits to the broker. Returns the annotation that records them, which is written into the Secret
 * together with other changes; undefined if the broker no longer has the Capsule.
 */
export async function tellLimits(
  context: Context,
  capsule: Capsule,
  signal: AbortSignal,
): Promise<Readonly<Record<string, string>> | undefined> {
  const answer = await askLimits(context, capsule, signal);
  context.databaseUsages.note(capsule.metadata.uid ?? '', answer);
  return isTrouble(answer) ? undefined : { [ANNOTATION.databaseLimits]: noteOf(limitsOf(capsule)) };
}

/**
 * Sends the limits. No other call concerns a Capsule that is provisioned, so this one detects that the broker no longer
 * has it.
 */
async function askLimits(
  { database }: Context,
  capsule: Capsule,
  signal: AbortSignal,
): Promise<DatabaseUsage | Finding> {
  try {
    return await database.limits(capsule.metadata.name, limitsOf(capsule), signal);
  } catch (error) {
    // A conflict means that the Capsule is being dropped or was dropped; this call sends no new principal that could
    // cause one.
    if (error instanceof BrokerError && (error.code === 'not_found' || error.code === 'conflict'))
      return LOST;
    throw error;
  }
}

/**
 * Ensures that the broker has the Capsule's limits and that its usage is known. The broker is called only when the
 * limits change or the usage is old; if it is unavailable, the last answer stays.
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
    if (annotations !== undefined) await writer.merge(SECRET, secret, { metadata: { annotations } }, signal);
    return;
  }
  const { status, reason } = knownUsage(context, capsule).finding;
  const freshMs = status === 'False' && usages.last(uid) !== undefined ? USAGE_SOON_MS / 2 : USAGE_MS;
  const isInStatus = reason !== 'DatabaseLost' && capsule.status?.usage?.database !== undefined;
  if (usages.isDue(uid, freshMs, isInStatus)) await ask(context, capsule, uid, signal);
}

/** The known usage of the Capsule's databases, as condition and status show it. */
export function knownUsage(context: Context, capsule: Capsule): Step<string> {
  const usage = context.databaseUsages.last(capsule.metadata.uid ?? '');
  if (usage === undefined) return { finding: before(capsule) ?? PROVISIONED };
  if (isTrouble(usage)) return { finding: usage };
  const shown = coarse(usage, bytesOf(capsule.status?.usage?.database));
  return { finding: judge(usage, shown), output: shown };
}

const limitsOf = ({ spec }: Capsule): DatabaseLimits => ({
  bytes: bytesOf(spec.quota?.database),
  connections: spec.database?.connections,
});

async function ask(context: Context, capsule: Capsule, uid: string, signal: AbortSignal): Promise<void> {
  const { databaseUsages, log } = context;
  try {
    databaseUsages.note(uid, await askLimits(context, capsule, signal));
  } catch (error) {
    if (!(error instanceof BrokerError)) throw error;
    log.debug({ capsule: capsule.metadata.name, err: error }, 'the usage of the databases could not be read');
    databaseUsages.note(uid);
  }
}

const noteOf = ({ bytes, connections }: DatabaseLimits) =>
  `bytes=${bytes ?? 'default'},connections=${connections ?? 'default'}`;

/** The finding of an earlier operator process. */
function before(capsule: Capsule): Finding | undefined {
  const known = capsule.status?.conditions?.find(({ type }) => type === 'DatabaseReady');
  if (known?.reason === 'NearQuota') return yes('NearQuota', known.message);
  return troubleBefore(capsule.status?.conditions, 'DatabaseReady', KEPT_REASONS);
}

function judge({ standing, limitBytes }: DatabaseUsage, shown: string): Finding {
  const held = `The databases of this Capsule hold ${shown} of ${quantity(limitBytes)} (spec.quota.database)`;
  switch (standing) {
    case 'ok':
      return PROVISIONED;
    case 'near':
      return yes('NearQuota', `${held}. Beyond it they accept no more data.`);
    case 'full':
      return no(
        'QuotaExceeded',
        `${held}. Each accepts one connection now, as long as they do not grow: delete with TRUNCATE or DROP TABLE, or DELETE and VACUUM, until less than 95 % is used, or raise the quota.`,
      );
    case 'closed':
      return no(
        'QuotaExceeded',
        `${held}, and are closed, since they continued to grow. Raise the quota, then delete data.`,
      );
  }
}
