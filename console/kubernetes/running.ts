import { checkManifest, type Manifest } from '@space/manifests';
import * as z from 'zod';
import type { Visit } from '../visit.ts';
import { apiPath, KubernetesError } from './client.ts';

const deployment = z.object({
  spec: z.object({
    template: z.object({
      spec: z.object({
        volumes: z
          .array(
            z.object({
              projected: z
                .object({
                  sources: z
                    .array(z.object({ configMap: z.object({ name: z.string() }).optional() }))
                    .optional(),
                })
                .optional(),
            }),
          )
          .default([]),
      }),
    }),
  }),
});
const configMap = z.object({ data: z.record(z.string(), z.string()).default({}) });

/** The manifest that pods run under now, or why it is not shown. */
export type Running =
  | { readonly is: 'known'; readonly manifest: Manifest }
  | { readonly is: 'nothing' }
  | { readonly is: 'hidden' };

/** Reads, as the person, which document the Assistant's pods mount. Many may not: it is in the Capsule's namespace. */
export async function runningManifest(
  visit: Visit,
  namespace: string | undefined,
  id: string,
): Promise<Running> {
  if (namespace === undefined) return { is: 'nothing' };
  const may = await Promise.all([
    visit.may({ group: 'apps', resource: 'deployments', namespace, name: id, verb: 'get' }),
    visit.may({ resource: 'configmaps', namespace, verb: 'get' }),
  ]);
  if (!may.every(Boolean)) return { is: 'hidden' };
  try {
    const path = apiPath`/apis/apps/v1/namespaces/${namespace}/deployments/${id}`;
    const { volumes } = deployment.parse(await visit.ask({ path })).spec.template.spec;
    const names = volumes
      .flatMap(({ projected }) => projected?.sources ?? [])
      .map((one) => one.configMap?.name);
    const name = names.find((one) => one?.startsWith(`${id}-manifest-`));
    if (name === undefined) return { is: 'nothing' };
    const { data } = configMap.parse(
      await visit.ask({ path: apiPath`/api/v1/namespaces/${namespace}/configmaps/${name}` }),
    );
    const checked = checkManifest(JSON.parse(data['manifest.json'] ?? 'null'));
    return checked.ok ? { is: 'known', manifest: checked.manifest } : { is: 'nothing' };
  } catch (error) {
    if (error instanceof KubernetesError && error.status === 404) return { is: 'nothing' };
    throw error;
  }
}
