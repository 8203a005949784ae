import { manifestDigest } from '@space/manifests';
import type { TestEnvironment } from './environment.ts';

/** What the operator leaves of an Assistant that runs under this manifest, in its Capsule's namespace, which there is. */
export async function running(
  { policyServer: { create } }: TestEnvironment,
  namespace: string,
  manifest: { readonly platform: { readonly id: string } },
): Promise<void> {
  const { id } = manifest.platform;
  const configMap = `${id}-manifest-${manifestDigest(manifest)}`;
  await create(`/api/v1/namespaces/${namespace}/configmaps`, {
    metadata: { name: configMap },
    data: { 'manifest.json': JSON.stringify(manifest) },
  });
  const labels = { app: id };
  const volumes = [{ name: 'manifest', projected: { sources: [{ configMap: { name: configMap } }] } }];
  await create(`/apis/apps/v1/namespaces/${namespace}/deployments`, {
    metadata: { name: id },
    spec: {
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: { volumes, containers: [{ name: id, image: 'registry.test/x:1' }] },
      },
    },
  });
}
