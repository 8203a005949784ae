import { newPowers, parseManifest } from '@space/manifests';
import type { Context } from '../context.ts';
import { ASSISTANT, CONFIG_MAP, type ConfigMap, type Deployment } from '../kinds.ts';
import { isNotFound } from '../runtime/errors.ts';
import { pathOf } from '../runtime/kube-object.ts';
import { type Workload, workloadNamespace } from './identity.ts';

/** More than these make a note that nobody reads; `assistant-manifest diff` shows them all. */
const MOST_TOLD = 5;

/** What the manifest that is about to run may do and the one that runs may not, as a sentence; undefined is nothing. */
export async function widerPowers(
  context: Pick<Context, 'client'>,
  workload: Workload,
  running: Deployment | undefined,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { manifest: next } = workload.documents;
  const mounted = mountedManifest(running, next.key);
  if (mounted === undefined || mounted === next.name) return undefined;
  const text = await readDocument(context, workloadNamespace(workload), mounted, next.key, signal);
  const old = text === undefined ? undefined : parseManifest(text);
  if (!old?.ok) return undefined;
  const powers = newPowers(old.manifest, workload.manifest).map(({ says }) => says);
  if (powers.length === 0) return undefined;
  const told = powers.slice(0, MOST_TOLD).join('; ');
  const more = powers.length > MOST_TOLD ? `; and ${powers.length - MOST_TOLD} more` : '';
  const versions = [old.manifest, workload.manifest].map(({ platform }) => platform.version);
  return `Version ${versions[1]} may do what ${versions[0]} could not: it ${told}${more}.`;
}

export function tellWiderPowers(context: Context, { assistant }: Workload, note: string): void {
  context.events.record(ASSISTANT, assistant, {
    type: 'Warning',
    reason: 'PowersWidened',
    action: 'Upgrade',
    note,
  });
}

/** The name of the document that the pods of a Deployment mount. */
function mountedManifest(deployment: Deployment | undefined, key: string): string | undefined {
  const volumes = deployment?.spec?.template.spec?.volumes ?? [];
  return volumes
    .flatMap(({ projected }) => projected?.sources ?? [])
    .find(({ configMap }) => configMap?.items?.some((item) => item.key === key))?.configMap?.name;
}

async function readDocument(
  context: Pick<Context, 'client'>,
  namespace: string,
  name: string,
  key: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    const path = pathOf(CONFIG_MAP, namespace, name);
    return (await context.client.call<ConfigMap>({ method: 'GET', path, signal })).data?.[key];
  } catch (error) {
    // If somebody deleted it by hand, no Event is sent; the next version is compared again.
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
