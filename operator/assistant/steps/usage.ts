import { BrokerError } from '@space/contracts/client';
import type { AssistantStatus } from '@space/manifests';
import { coarseAlone, USAGE_MS } from '../../capsule/coarse.ts';
import { principalOf } from '../../capsule/principal.ts';
import { bytesOf } from '../../capsule/quantity.ts';
import { isReady } from '../../capsule/status.ts';
import type { AppUsage } from '../../capsule/usages.ts';
import { type Context, readSecret } from '../../context.ts';
import { objectPrincipalSecretName, principalSecretName } from '../../names.ts';
import { ApiError } from '../../runtime/errors.ts';
import { together } from '../../runtime/together.ts';
import type { RunFacts } from '../facts.ts';

/**
 * What its database and its files take, as its status tells it. Both brokers are asked at a sweep, and not before it
 * runs; one that is away for a moment changes nothing of what was heard before.
 */
export async function tellUsage(
  context: Context,
  { assistant, workload }: RunFacts,
  signal: AbortSignal,
): Promise<NonNullable<AssistantStatus['usage']>> {
  const { appUsages: usages, log } = context;
  const { uid = '' } = assistant.metadata;
  const told = assistant.status?.usage;
  if (isReady(assistant) && usages.isDue(uid, USAGE_MS, told !== undefined)) {
    const { id } = workload.manifest.platform;
    const heard = await ask(context, assistant.spec.capsule, id, signal).catch((error: unknown) => {
      // Whatever needs an answer of either has asked before, and told what is wrong.
      if (!(error instanceof BrokerError || error instanceof ApiError)) throw error;
      log.debug({ assistant: id, err: error }, 'what an Assistant takes could not be asked');
      return undefined;
    });
    usages.note(uid, heard);
  }
  const { database, storage } = usages.last(uid) ?? {};
  return {
    ...(database === undefined ? {} : { database: coarseAlone(database, bytesOf(told?.database)) }),
    ...(storage === undefined ? {} : { storage: coarseAlone(storage, bytesOf(told?.storage)) }),
  };
}

async function ask(context: Context, capsule: string, app: string, signal: AbortSignal): Promise<AppUsage> {
  const { database: databases, objectStore, names } = context;
  const asked = async (
    name: string,
    size: (principal: ReturnType<typeof principalOf>) => Promise<number | undefined>,
  ) => {
    const secret = await readSecret(context, names.systemNamespace, name, signal);
    return secret?.data?.['principal'] === undefined ? undefined : size(principalOf(secret));
  };
  const [database, storage] = await together([
    asked(principalSecretName(capsule), (token) => databases.appUsage(capsule, app, token, signal)),
    objectStore &&
      asked(objectPrincipalSecretName(capsule), (token) => objectStore.appUsage(capsule, app, token, signal)),
  ]);
  return { database, storage };
}
