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

/** What a sweep hears of its data. */
interface Told {
  readonly usage: NonNullable<AssistantStatus['usage']>;
  /** They take the place of what is said of the credentials that it holds: nothing is behind them any more. */
  readonly lost: Findings;
}

const KINDS = ['database', 'storage'] as const;
/** A principal that is refused may be exchanged at any moment, by a person who waits for the outcome. */
export const REFUSED_MS = 60_000;

const CONDITIONS = { database: 'DatabaseReady', storage: 'ObjectStoreReady' } as const;

/**
 * What its database and its files take, as its status tells it. Both brokers are asked at a sweep, and not before it
 * runs; one that is away for a moment changes nothing of what was heard before. Nothing else asks for what it has
 * already, so it is also here that its data turns out to be gone: etcd was set back to before a drop.
 */
export async function tellUsage(context: Context, facts: RunFacts, signal: AbortSignal): Promise<Told> {
  const { appUsages: usages, objectStore } = context;
  const { assistant, workload } = facts;
  const { uid = '' } = assistant.metadata;
  const told = assistant.status?.usage;
  const kinds = KINDS.filter((kind) => kind === 'database' || objectStore);
  const before = kinds.flatMap((kind) => troubleOf(facts, kind) ?? []);
  const wasWell = before.length === 0;
  const believedMs = before.some(({ reason }) => reason === 'BrokerRefused') ? REFUSED_MS / 2 : USAGE_MS;
  if ((!wasWell || isReady(assistant)) && usages.isDue(uid, believedMs, wasWell && told !== undefined)) {
    const { id } = workload.manifest.platform;
    const heard = await ask(context, assistant.spec.capsule, id, signal);
    const last = usages.last(uid);
    usages.note(uid, {
      database: heard.database ?? last?.database,
      storage: heard.storage ?? last?.storage,
    });
  }
  const last = usages.last(uid);
  const sizes = kinds.flatMap((kind) => {
    const bytes = last?.[kind];
    return typeof bytes === 'number' ? [[kind, coarseAlone(bytes, bytesOf(told?.[kind]))]] : [];
  });
  const lost = kinds.flatMap((kind) => {
    const heard = last?.[kind] ?? troubleOf(facts, kind);
    return isTrouble(heard) ? [[CONDITIONS[kind], heard]] : [];
  });
  return { usage: Object.fromEntries(sizes), lost: Object.fromEntries(lost) };
}

const LOST = {
  database: no(
    'DatabaseLost',
    `The database broker has dropped the database of this Assistant, or never made it, so its URL opens nothing. This is what an etcd that was set back to an older state shows. Restore its Capsule from a backup; or, to begin with an empty database, delete the Assistant and apply it anew, or give its annotation ${ANNOTATION.rotate} a new value.`,
  ),
  storage: no(
    'FilesLost',
    'The object-storage broker has dropped the files of this Assistant, or never knew it, so its token opens nothing. This is what an etcd that was set back to an older state shows. Restore its Capsule from a backup; or, to begin without files, delete the Assistant and apply it anew.',
  ),
} as const;

const TOLD: ReadonlySet<Reason> = new Set(['DatabaseLost', 'FilesLost', 'BrokerRefused']);

/** What its condition says of data that a broker had given it before: a refusal to give it any is told elsewhere. */
function troubleOf(
  { assistant, provisioned, objects }: RunFacts,
  kind: (typeof KINDS)[number],
): Finding | undefined {
  const isGiven = kind === 'database' ? provisioned : objects?.registered;
  return isGiven ? troubleBefore(assistant.status?.conditions, CONDITIONS[kind], TOLD) : undefined;
}

/** Each broker for itself: whatever one of them says, or does not, the other is heard. */
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
      // Whatever needs an answer of either has asked before, and told what is wrong.
      if (!(error instanceof BrokerError || error instanceof ApiError)) throw error;
      log.debug({ assistant: app, err: error }, 'what an Assistant takes could not be asked');
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
