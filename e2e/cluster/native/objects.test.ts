import { expect, test } from 'vitest';
import { components } from './components.ts';
import { nodeLayouts } from './layout.ts';
import { baseObjects } from './objects.ts';

interface Item {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec?: Record<string, unknown>;
}

async function itemsOf(nodes: number): Promise<readonly Item[]> {
  return JSON.parse(await baseObjects(nodeLayouts('lab', nodes), 'space/coredns:abc')).items;
}

const items = await itemsOf(1);

test('a cluster begins with its sandbox class, its DNS and its storage', () => {
  const names = items.map(({ kind, metadata }) => `${kind}/${metadata.name}`);
  expect(names).toEqual(
    expect.arrayContaining(['RuntimeClass/gvisor', 'Service/kube-dns', 'StorageClass/standard']),
  );
  expect(items.filter(({ kind }) => kind === 'PersistentVolume')).toHaveLength(12);
});

test('cluster DNS runs the image that was built for it', () => {
  const deployment = items.find(({ kind }) => kind === 'Deployment');
  expect(deployment?.spec).toMatchObject({
    template: { spec: { containers: [{ image: 'space/coredns:abc' }] } },
  });
});

test('volumes are directories of this node, so that the kubelet gives them to their group', () => {
  const volume = items.find(({ metadata }) => metadata.name === 'local-01');
  expect(volume?.spec).toMatchObject({
    local: { path: '/var/lib/space/lab/volumes/local-01' },
    nodeAffinity: {
      required: { nodeSelectorTerms: [{ matchExpressions: [{ operator: 'In', values: ['lab'] }] }] },
    },
  });
});

test('every node is told its pods’ addresses, and nobody else gives it others', async () => {
  const nodes = (await itemsOf(3)).filter(({ kind }) => kind === 'Node');
  expect(nodes.map(({ metadata, spec }) => [metadata.name, spec?.['podCIDR']])).toEqual([
    ['lab', '10.244.0.0/24'],
    ['lab-2', '10.244.1.0/24'],
    ['lab-3', '10.244.2.0/24'],
  ]);
  const [first] = nodeLayouts('lab', 3);
  const manager = components(first).find(({ name }) => name === 'kube-controller-manager');
  expect(manager?.command.join(' ')).not.toContain('--allocate-node-cidrs');
});

test('each node has volumes of its own, and no two have a name in common', async () => {
  const volumes = (await itemsOf(3)).filter(({ kind }) => kind === 'PersistentVolume');
  expect(new Set(volumes.map(({ metadata }) => metadata.name)).size).toBe(36);
  expect(volumes.find(({ metadata }) => metadata.name === 'local-3-01')?.spec).toMatchObject({
    local: { path: '/var/lib/space/lab/nodes/3/volumes/local-3-01' },
    nodeAffinity: {
      required: { nodeSelectorTerms: [{ matchExpressions: [{ operator: 'In', values: ['lab-3'] }] }] },
    },
  });
});
