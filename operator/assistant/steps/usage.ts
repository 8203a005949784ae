import { BrokerError } from '@space/contracts/client';
import type { AssistantStatus } from '@space/manifests';
import { coarseAlone, USAGE_MS } from '../../capsule/coarse.ts';
import { principalOf } from '../../capsule/principal.ts';
import { bytesOf } from '../../capsule/quantity.ts';
import { isReady } from '../../capsule/status.ts';
import type { AppUsage } from '../../capsule/usages.ts';
import { type Finding, no } from '../../conditions.ts';
import { type Context, readSecret } from '../../context.ts';
import type { Assistant } from '../../kinds.ts';
import { ANNOTATION, objectPrincipalSecretName, principalSecretName } from '../../names.ts';
import { ApiError } from '../../runtime/errors.ts';
import { together } from '../../runtime/together.ts';
import type { RunFacts } from '../facts.ts';

/** What a sweep hears of its data. */
interface Told {
  readonly usage: NonNullable<AssistantStatus['usage']>;
  /** What is to be said instead of the URL that it holds: nothing is behind it any more. */
  readonly lost: Finding | undefined;
}

/**
 * What its database and its files take, as its status tells it. Both brokers are asked at a sweep, and not before it
 * runs; one that is away for a moment changes nothing of what was heard before. Nothing else asks for what it has
 * already, so it is also here that a database turns out to be gone: etcd was set back to before a drop.
 */
export async function tellUsage(
  context: Context,
  { assistant, workload }: RunFacts,
  signal: AbortSignal,
): Promise<Told> {
  const { appUsages: usages, log } = context;
  const { uid = '' } = assistant.metadata;
  const told = assistant.status?.usage;
  const wasLost = isLost(assistant);
  if ((wasLost || isReady(assistant)) && usages.isDue(uid, USAGE_MS, !wasLost && told !== undefined)) {
    const { id } = workload.manifest.platform;
    const heard = await ask(context, assistant.spec.capsule, id, signal).catch((error: unknown) => {
      // Whatever needs an answer of either has asked before, and told what is wrong.
      if (!(error instanceof BrokerError || error instanceof ApiError)) throw error;
      log.debug({ assistant: id, err: error }, 'what an Assistant takes could not be asked');
      return undefined;
    });
    usages.note(uid, heard);
  }
  const last = usages.last(uid);
  const lost = last === undefined ? wasLost : last.database === 'lost';
  const database = last?.database === 'lost' ? undefined : last?.database;
  const storage = last?.storage;
  return {
    usage: {
      ...(database === undefined ? {} : { database: coarseAlone(database, bytesOf(told?.database)) }),
      ...(storage === undefined ? {} : { storage: coarseAlone(storage, bytesOf(told?.storage)) }),
    },
    lost: lost ? LOST : undefined,
  };
}

const LOST = no(
  'DatabaseLost',
  `The database broker has dropped the database of this Assistant, or never made it, so its URL opens nothing. This is what an etcd that was set back to an older state shows. Restore its Capsule from a backup; or, to begin with an empty database, delete the Assistant and apply it anew, or give its annotation ${ANNOTATION.rotate} a new value.`,
);

const isLost = ({ status }: Assistant): boolean =>
  status?.conditions?.some(({ type, reason }) => type === 'DatabaseReady' && reason === 'DatabaseLost') ??
  false;

async function ask(context: Context, capsule: string, app: string, signal: AbortSignal): Promise<AppUsage> {
  const { database: databases, objectStore, names } = context;
  const asked = async <T>(
    name: string,
    size: (principal: ReturnType<typeof principalOf>) => Promise<T | undefined>,
  ) => {
    const secret = await readSecret(context, names.systemNamespace, name, signal);
    return secret?.data?.['principal'] === undefined ? undefined : size(principalOf(secret));
  };
  const [database, storage] = await together([
    asked(principalSecretName(capsule), (token) =>
      databases.appUsage(capsule, app, token, signal).catch(lostOrFailed),
    ),
    objectStore &&
      asked(objectPrincipalSecretName(capsule), (token) => objectStore.appUsage(capsule, app, token, signal)),
  ]);
  return { database, storage };
}

function lostOrFailed(error: unknown): 'lost' {
  if (error instanceof BrokerError && error.failure === 'refused' && error.code === 'not_found')
    return 'lost';
  throw error;
}
