import { mkdirSync } from 'node:fs';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join, normalize } from 'node:path';
import { type Api, callApi } from './api.ts';
import { type Layout, NETWORK, VOLUMES } from './layout.ts';

const LABEL = 'platform.space/local-volume';

/** Volumes are the cluster's, so that those of a further node have its number in their names. */
function volumeNames({ index: node }: Layout): readonly string[] {
  const prefix = node === 1 ? 'local' : `local-${node}`;
  return Array.from({ length: VOLUMES }, (_, index) => `${prefix}-${String(index + 1).padStart(2, '0')}`);
}

/** The default StorageClass, and the volumes of each node. */
export function volumeManifests(nodes: readonly Layout[]): readonly object[] {
  const storageClass = {
    apiVersion: 'storage.k8s.io/v1',
    kind: 'StorageClass',
    metadata: { name: 'standard', annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' } },
    provisioner: 'kubernetes.io/no-provisioner',
    volumeBindingMode: 'WaitForFirstConsumer',
  };
  return [storageClass, ...nodes.flatMap(volumesOf)];
}

/** Directories of the node, so that the kubelet applies `fsGroup` to them. */
function volumesOf(layout: Layout): readonly object[] {
  const hostname = { key: 'kubernetes.io/hostname', operator: 'In', values: [layout.node] };
  return volumeNames(layout).map((name) => ({
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name, labels: { [LABEL]: 'true' } },
    spec: {
      capacity: { storage: '20Gi' },
      accessModes: ['ReadWriteOnce'],
      persistentVolumeReclaimPolicy: 'Retain',
      storageClassName: 'standard',
      local: { path: join(layout.volumes, name) },
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [hostname] }] } },
    },
  }));
}

/** The directories that the node's volumes are. */
export function makeVolumes(layout: Layout): void {
  for (const name of volumeNames(layout)) mkdirSync(join(layout.volumes, name), { recursive: true });
}

interface VolumeList {
  readonly items: readonly {
    readonly metadata: { readonly name: string };
    readonly spec: { readonly local?: { readonly path: string } };
    readonly status?: { readonly phase?: string };
  }[];
}

const RECYCLE_MS = 3_000;

/**
 * Empties a volume whose claim was deleted and offers it again, as a provisioner with `Delete` would. The first node
 * does that for all of the cluster's, whose directories are below its own.
 */
export function recycleVolumes(layout: Layout): void {
  const api: Api = { port: NETWORK.apiPort, pki: layout.pki };
  const again = () => setTimeout(pass, RECYCLE_MS);
  // A pass that fails (the API server restarts, say) is made good by the next one.
  const pass = () => recycleReleased(api, layout).then(again, again);
  void pass();
}

async function recycleReleased(api: Api, { state }: Layout): Promise<void> {
  const path = '/api/v1/persistentvolumes';
  const list = (await callApi(api, `${path}?labelSelector=${LABEL}`)) as VolumeList;
  for (const { metadata, spec, status } of list.items) {
    const directory = normalize(spec.local?.path ?? '');
    if (status?.phase !== 'Released' || !directory.startsWith(`${state}/`)) continue;
    await mkdir(directory, { recursive: true });
    for (const entry of await readdir(directory)) await rm(join(directory, entry), { recursive: true });
    await callApi(api, `${path}/${metadata.name}`, {
      method: 'PATCH',
      contentType: 'application/merge-patch+json',
      body: { spec: { claimRef: null } },
    });
  }
}
