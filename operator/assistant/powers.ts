import { newPowers, parseManifest } from '@space/manifests';
import type { Context } from '../context.ts';
import { ASSISTANT, CONFIG_MAP, type ConfigMap, type Deployment } from '../kinds.ts';
import { ApiError, isNotFound } from '../runtime/errors.ts';
import { pathOf } from '../runtime/kube-object.ts';
import { type Workload, workloadNamespace } from './identity.ts';

/** An Event with more powers than these would not be read; `assistant-manifest diff` shows all of them. */
const MOST_LISTED = 5;

/** What the new manifest permits and the running one does not, as a sentence; undefined if there is nothing. */
export async function widerPowers(
  context: Pick<Context, 'client'>,
  workload: Workload,
  running: Deployment | undefined,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { manifest: next } = workload.documents;
  const mounted = mountedManifest(running, next.key);
  if (mounted === undefined || mounted === next.name) return undefined;
  const text = (await readDocuments(context, workloadNamespace(workload), mounted, signal))?.[next.key];
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

/** Whether the pods of a Deployment have exactly this manifest. */
export const runsManifest = (running: Deployment | undefined, { documents }: Workload): boolean =>
  mountedManifest(running, documents.manifest.key) === documents.manifest.name;

/** The name of the manifest's ConfigMap that the pods of a Deployment mount. */
function mountedManifest(deployment: Deployment | undefined, key: string): string | undefined {
  const volumes = deployment?.spec?.template.spec?.volumes ?? [];
  return volumes
    .flatMap(({ projected }) => projected?.sources ?? [])
    .find(({ configMap }) => configMap?.items?.some((item) => item.key === key))?.configMap?.name;
}

async function readDocuments(
  context: Pick<Context, 'client'>,
  namespace: string,
  name: string,
  signal: AbortSignal,
): Promise<ConfigMap['data']> {
  try {
    const path = pathOf(CONFIG_MAP, namespace, name);
    return (await context.client.call<ConfigMap>({ method: 'GET', path, signal })).data;
  } catch (error) {
    // If somebody deleted the ConfigMap, no Event is sent, and the next version is compared again.
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
