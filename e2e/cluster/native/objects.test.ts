import { expect, test } from 'vitest';
import { layoutOf } from './layout.ts';
import { baseObjects } from './objects.ts';

interface Item {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec?: Record<string, unknown>;
}

const { items } = JSON.parse(await baseObjects('lab', layoutOf('lab'), 'space/coredns:abc')) as {
  items: readonly Item[];
};

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
