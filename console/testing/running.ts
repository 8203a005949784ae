import { manifestDigest } from '@space/manifests';
import { ANNOTATION } from '../../operator/names.ts';
import type { TestEnvironment } from './environment.ts';

/** What the operator leaves of an Assistant, which there is, as is its Capsule's namespace, if it runs under this manifest. */
export async function running(
  { policyServer: { create, server } }: TestEnvironment,
  namespace: string,
  manifest: { readonly platform: { readonly id: string } },
): Promise<void> {
  const { id } = manifest.platform;
  const { metadata } = await server.client.call<{ metadata: { uid: string } }>({
    method: 'GET',
    path: `/apis/platform.space/v1/namespaces/home/assistants/${id}`,
  });
  const configMap = `${id}-manifest-${manifestDigest(manifest)}`;
  await create(`/api/v1/namespaces/${namespace}/configmaps`, {
    metadata: { name: configMap },
    data: { 'manifest.json': JSON.stringify(manifest) },
  });
  const labels = { app: id };
  const volumes = [{ name: 'manifest', projected: { sources: [{ configMap: { name: configMap } }] } }];
  await create(`/apis/apps/v1/namespaces/${namespace}/deployments`, {
    metadata: { name: id, annotations: { [ANNOTATION.owner]: metadata.uid } },
    spec: {
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: { volumes, containers: [{ name: id, image: 'registry.test/x:1' }] },
      },
    },
  });
}
