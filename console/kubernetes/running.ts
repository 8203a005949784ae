import { checkManifest, type Manifest } from '@space/manifests';
import * as z from 'zod';
import type { Visit } from '../visit.ts';
import { apiPath, KubernetesError } from './client.ts';
import { type AssistantView, type CapsuleView, getCapsule, idOf } from './space.ts';

/** The UID of the Assistant that an object in the Capsule's namespace belongs to. */
const OWNER = 'platform.space/owner-uid';

const deployment = z.object({
  metadata: z.object({ annotations: z.record(z.string(), z.string()).default({}) }),
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

/** The manifest of the running pods, or why it is not shown. */
export type Running =
  | { readonly is: 'known'; readonly manifest: Manifest }
  | { readonly is: 'nothing' }
  | { readonly is: 'hidden' };

/** The Capsule of an Assistant, as far as the person may see it. */
export type Place =
  | { readonly is: 'known'; readonly capsule: CapsuleView }
  | { readonly is: 'gone' }
  | { readonly is: 'hidden' };

export async function placeOf(visit: Visit, capsule: string): Promise<Place> {
  try {
    return { is: 'known', capsule: await getCapsule(visit, capsule) };
  } catch (error) {
    if (!(error instanceof KubernetesError)) throw error;
    if (error.status === 403) return { is: 'hidden' };
    if (error.status === 404) return { is: 'gone' };
    throw error;
  }
}

/**
 * Reads, with the person's rights, which document the Assistant's pods mount. Many people may not, since it is in the
 * Capsule's namespace.
 */
export async function runningManifest(visit: Visit, place: Place, view: AssistantView): Promise<Running> {
  // A person who may not see the Capsule does not learn its namespace, so whether something runs there is unknown.
  if (place.is === 'hidden') return { is: 'hidden' };
  const namespace = place.is === 'known' ? place.capsule.status.namespace : undefined;
  const id = idOf(view);
  if (namespace === undefined || id === undefined) return { is: 'nothing' };
  const may = await Promise.all([
    visit.may({ group: 'apps', resource: 'deployments', namespace, name: id, verb: 'get' }),
    visit.may({ resource: 'configmaps', namespace, verb: 'get' }),
  ]);
  if (!may.every(Boolean)) return { is: 'hidden' };
  try {
    const path = apiPath`/apis/apps/v1/namespaces/${namespace}/deployments/${id}`;
    const { metadata, spec } = deployment.parse(await visit.ask({ path }));
    // Another Assistant of the Capsule may have taken the same id first.
    if (metadata.annotations[OWNER] !== view.metadata.uid) return { is: 'nothing' };
    const { volumes } = spec.template.spec;
    const names = volumes
      .flatMap(({ projected }) => projected?.sources ?? [])
      .map((one) => one.configMap?.name);
    const name = names.find((one) => one?.startsWith(`${id}-manifest-`));
    if (name === undefined) return { is: 'nothing' };
    const { data } = configMap.parse(
      await visit.ask({ path: apiPath`/api/v1/namespaces/${namespace}/configmaps/${name}` }),
    );
    const checked = checkManifest(parsed(data['manifest.json']));
    return checked.ok ? { is: 'known', manifest: checked.manifest } : { is: 'nothing' };
  } catch (error) {
    if (error instanceof KubernetesError && error.status === 404) return { is: 'nothing' };
    throw error;
  }
}

/** The content is not trusted, since anybody with a right to ConfigMaps there may have written it. */
function parsed(text = ''): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
