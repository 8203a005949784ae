import { expect, it } from 'vitest';
import type { KubeObject } from '../space/kube-object.ts';
import { pluginsOf } from './plugins.ts';

const agent = (name: string, image: string, ...folders: readonly string[]): KubeObject => ({
  apiVersion: 'apps/v1',
  kind: 'DaemonSet',
  metadata: { name, namespace: 'kube-system' },
  spec: {
    template: {
      spec: {
        containers: [{ image }],
        volumes: [{ emptyDir: {} }, ...folders.map((path) => ({ hostPath: { path } }))],
      },
    },
  },
});

it('names what installs a network plugin on nodes, and what only enforces its policies, with their versions', () => {
  const agents = [
    agent('kindnet', 'kindnetd:v20260101', '/etc/cni/net.d'),
    agent('aws-node', 'amazon-k8s-cni:v1.21', '/opt/cni/bin'),
    agent('azure-npm', 'azure-npm:v1.5'),
    agent('node-exporter', 'node-exporter:v1', '/proc'),
  ];
  expect(pluginsOf(agents, undefined)).toEqual([
    'DaemonSet kube-system/kindnet: kindnetd:v20260101',
    'DaemonSet kube-system/aws-node: amazon-k8s-cni:v1.21',
    'DaemonSet kube-system/azure-npm: azure-npm:v1.5',
  ]);
});

it('uses the version that Calico writes into the cluster, even if no pod runs it', () => {
  expect(pluginsOf([], 'v3.28.5')).toEqual(['Calico v3.28.5']);
});
