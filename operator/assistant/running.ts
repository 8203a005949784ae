import type { Context } from '../context.ts';
import { CONFIG_MAP, type ConfigMap, type Deployment } from '../kinds.ts';
import { isNotFound } from '../runtime/errors.ts';
import { pathOf } from '../runtime/kube-object.ts';
import { type Document, type Workload, workloadNamespace } from './identity.ts';

/** Whether the pods of a Deployment have exactly this manifest. */
export const runsManifest = (running: Deployment | undefined, { documents }: Workload): boolean =>
  mountedManifest(running, documents.manifest.key) === documents.manifest.name;

/** The manifest that the pods of a Deployment have; undefined without one, or if somebody deleted its ConfigMap. */
export async function readRunning(
  context: Pick<Context, 'client'>,
  workload: Workload,
  running: Deployment | undefined,
  signal: AbortSignal,
): Promise<Document | undefined> {
  const { manifest: wanted } = workload.documents;
  if (runsManifest(running, workload)) return wanted;
  const { key } = wanted;
  const name = mountedManifest(running, key);
  if (name === undefined) return undefined;
  const text = (await readData(context, workloadNamespace(workload), name, signal))?.[key];
  return text === undefined ? undefined : { name, key, text };
}

/** The name of the manifest's ConfigMap that the pods of a Deployment mount. */
function mountedManifest(deployment: Deployment | undefined, key: string): string | undefined {
  const volumes = deployment?.spec?.template.spec?.volumes ?? [];
  return volumes
    .flatMap(({ projected }) => projected?.sources ?? [])
    .find(({ configMap }) => configMap?.items?.some((item) => item.key === key))?.configMap?.name;
}

async function readData(
  context: Pick<Context, 'client'>,
  namespace: string,
  name: string,
  signal: AbortSignal,
): Promise<ConfigMap['data']> {
  try {
    const path = pathOf(CONFIG_MAP, namespace, name);
    return (await context.client.call<ConfigMap>({ method: 'GET', path, signal })).data;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
