import { BrokerError } from '@space/contracts/client';
import type { Secret } from '@space/contracts/secret';
import type { AssistantStatus } from '@space/manifests';
import { isForbidden, principalFinding } from '../../brokers/findings.ts';
import { coarseAlone, USAGE_MS } from '../../capsule/coarse.ts';
import { principalOf } from '../../capsule/principal.ts';
import { bytesOf } from '../../capsule/quantity.ts';
import { isReady } from '../../capsule/status.ts';
import { type AppUsage, isTrouble, troubleBefore } from '../../capsule/usages.ts';
import { type Finding, type Findings, no, type Reason } from '../../conditions.ts';
import { type Context, readSecret } from '../../context.ts';
import { ANNOTATION, objectPrincipalSecretName, principalSecretName } from '../../names.ts';
import { ApiError } from '../../runtime/errors.ts';
import { together } from '../../runtime/together.ts';
import type { RunFacts } from '../facts.ts';

/** Usage of the data, and findings about data that is gone. */
interface UsageReport {
  readonly usage: NonNullable<AssistantStatus['usage']>;
  /** These findings replace those about the credentials, since a credential without its data is of no use. */
  readonly lost: Findings;
}

const KINDS = ['database', 'storage'] as const;
/** A refused principal may be replaced at any moment, by a person who waits for the result. */
export const REFUSED_MS = 60_000;

const CONDITIONS = { database: 'DatabaseReady', storage: 'ObjectStoreReady' } as const;

/**
 * Reads how much the database and the files use, for the status. Both brokers are asked at each sweep, once the
 * Assistant runs; if one of them is unavailable, the last answer stays. No other step asks for data that exists
 * already, so this one also detects that data is gone, as after a restore of etcd to a time before a drop.
 */
export async function readUsage(
  context: Context,
  facts: RunFacts,
  signal: AbortSignal,
): Promise<UsageReport> {
  const { appUsages: usages, objectStore } = context;
  const { assistant, workload } = facts;
  const { uid = '' } = assistant.metadata;
  const known = assistant.status?.usage;
  const kinds = KINDS.filter((kind) => kind === 'database' || objectStore);
  const before = kinds.flatMap((kind) => troubleOf(facts, kind) ?? []);
  const hadTrouble = before.length > 0;
  const freshMs = before.some(({ reason }) => reason === 'BrokerRefused') ? REFUSED_MS / 2 : USAGE_MS;
  if ((hadTrouble || isReady(assistant)) && usages.isDue(uid, freshMs, !hadTrouble && known !== undefined)) {
    const { id } = workload.manifest.platform;
    const answer = await ask(context, assistant.spec.capsule, id, signal);
    const last = usages.last(uid);
    usages.note(uid, {
      database: answer.database ?? last?.database,
      storage: answer.storage ?? last?.storage,
    });
  }
  const last = usages.last(uid);
  const sizes = kinds.flatMap((kind) => {
    const bytes = last?.[kind];
    return typeof bytes === 'number' ? [[kind, coarseAlone(bytes, bytesOf(known?.[kind]))]] : [];
  });
  const lost = kinds.flatMap((kind) => {
    const answer = last?.[kind] ?? troubleOf(facts, kind);
    return isTrouble(answer) ? [[CONDITIONS[kind], answer]] : [];
  });
  return { usage: Object.fromEntries(sizes), lost: Object.fromEntries(lost) };
}

const LOST = {
  database: no(
    'DatabaseLost',
    `The database broker has dropped the database of this Assistant, or never created it, so its URL gives access to nothing. A possible cause is an etcd that was restored to an older state. Restore its Capsule from a backup; or, to begin with an empty database, delete the Assistant and apply it again, or give its annotation ${ANNOTATION.rotate} a new value.`,
  ),
  storage: no(
    'FilesLost',
    'The object-storage broker has dropped the files of this Assistant, or never knew it, so its token gives access to nothing. A possible cause is an etcd that was restored to an older state. Restore its Capsule from a backup; or, to begin without files, delete the Assistant and apply it again.',
  ),
} as const;

const KEPT_REASONS: ReadonlySet<Reason> = new Set(['DatabaseLost', 'FilesLost', 'BrokerRefused']);

/**
 * The finding in the condition about data that a broker had provided. A refusal to provide any is reported by another
 * step.
 */
function troubleOf(
  { assistant, provisioned, objects }: RunFacts,
  kind: (typeof KINDS)[number],
): Finding | undefined {
  const isGiven = kind === 'database' ? provisioned : objects?.registered;
  return isGiven ? troubleBefore(assistant.status?.conditions, CONDITIONS[kind], KEPT_REASONS) : undefined;
}

/** Asks the brokers independently, so that a failure of one does not hide the answer of the other. */
async function ask(context: Context, capsule: string, app: string, signal: AbortSignal): Promise<AppUsage> {
  const { database: databases, objectStore, names, log } = context;
  const asked = async <T>(
    secretName: string,
    lost: Finding,
    size: (principal: Secret) => Promise<T>,
  ): Promise<T | Finding | undefined> => {
    try {
      const secret = await readSecret(context, names.systemNamespace, secretName, signal);
      return secret?.data?.['principal'] === undefined ? undefined : await size(principalOf(secret));
    } catch (error) {
      if (isUnknown(error)) return lost;
      if (isForbidden(error)) return principalFinding(error, { names, capsule, secretName });
      // The steps that depend on the broker have reported this failure already.
      if (!(error instanceof BrokerError || error instanceof ApiError)) throw error;
      log.debug({ assistant: app, err: error }, 'the usage of an Assistant could not be read');
      return undefined;
    }
  };
  const [database, storage] = await together([
    asked(principalSecretName(capsule), LOST.database, (token) =>
      databases.appUsage(capsule, app, token, signal),
    ),
    objectStore &&
      asked(objectPrincipalSecretName(capsule), LOST.storage, async (token) => {
        return (await objectStore.appUsage(capsule, app, token, signal)) ?? 'unlisted';
      }),
  ]);
  return { database, storage };
}

const isUnknown = (error: unknown): boolean =>
  error instanceof BrokerError && error.failure === 'refused' && error.code === 'not_found';
