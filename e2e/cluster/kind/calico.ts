import { copyFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { withScratch } from '../builds/cache.ts';
import { felixEnvironment, podNetwork } from '../calico.ts';
import { dockerBuild } from '../docker.ts';
import { NODE, PODS } from './configuration.ts';

/** Builds the image of Calico's two programs; returns its reference. */
export function calicoImage(programs: string, log: string): Promise<string> {
  const recipe = join(import.meta.dirname, '..', 'images', 'calico');
  return withScratch('calico', async (context) => {
    await copyFile(join(programs, 'calico-felix'), join(context, 'calico-felix'));
    await copyFile(join(programs, 'cni', 'calico'), join(context, 'calico'));
    await copyFile(join(recipe, 'start.sh'), join(context, 'start.sh'));
    return dockerBuild({ name: 'space/calico', dockerfile: join(recipe, 'Dockerfile'), context }, log);
  });
}

/** The objects that Calico needs in addition to its definitions: rights, settings, and Felix on the node. */
export async function calicoObjects(node: string, image: string): Promise<string> {
  const file = join(import.meta.dirname, '..', 'manifests', 'calico.yaml');
  const own = parseAllDocuments(await readFile(file, 'utf8')).map((document) => document.toJS() as unknown);
  const labels = { 'k8s-app': 'calico' };
  const metadata = { name: 'calico', namespace: 'kube-system', labels };
  const network = podNetwork({ node, kubeconfig: NODE.calicoKubeconfig, addresses: NODE.addresses });
  const environment = felixEnvironment({ node, kubeconfig: NODE.calicoKubeconfig, device: 'eth0' });
  const pool = {
    apiVersion: 'crd.projectcalico.org/v1',
    kind: 'IPPool',
    metadata: { name: 'pods' },
    // Hosts beyond the cluster have no route to a pod's address.
    spec: { cidr: PODS, natOutgoing: true, ipipMode: 'Never', vxlanMode: 'Never' },
  };
  const settings = {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata,
    data: { '10-calico.conflist': JSON.stringify(network) },
  };
  const paths = {
    kubeconfig: [NODE.calicoKubeconfig, NODE.calicoKubeconfig, 'File'],
    'cni-net': [NODE.networks, '/host/cni-net', 'DirectoryOrCreate'],
    'cni-bin': [NODE.plugins, '/host/cni-bin', 'Directory'],
    calico: ['/var/lib/calico', '/var/lib/calico', 'DirectoryOrCreate'],
  } as const;
  const felix = {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata,
    spec: {
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: {
          hostNetwork: true,
          priorityClassName: 'system-node-critical',
          tolerations: [{ operator: 'Exists' }],
          terminationGracePeriodSeconds: 0,
          automountServiceAccountToken: false,
          containers: [
            {
              name: 'felix',
              image,
              imagePullPolicy: 'Never',
              securityContext: { privileged: true },
              env: Object.entries(environment).map(([name, value]) => ({ name, value })),
              readinessProbe: {
                httpGet: { host: '127.0.0.1', port: 9099, path: '/readiness' },
                periodSeconds: 1,
              },
              volumeMounts: [
                { name: 'settings', mountPath: '/etc/calico' },
                ...Object.entries(paths).map(([name, [, mountPath]]) => ({ name, mountPath })),
              ],
            },
          ],
          volumes: [
            { name: 'settings', configMap: { name: 'calico' } },
            ...Object.entries(paths).map(([name, [path, , type]]) => ({ name, hostPath: { path, type } })),
          ],
        },
      },
    },
  };
  return JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [...own, pool, settings, felix] });
}
