import { mkdirSync } from 'node:fs';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Api, callApi } from './api.ts';
import { type Layout, NETWORK, VOLUMES } from './layout.ts';

const LABEL = 'platform.space/local-volume';

const volumeNames: readonly string[] = Array.from(
  { length: VOLUMES },
  (_, index) => `local-${String(index + 1).padStart(2, '0')}`,
);

/** A default StorageClass and its volumes: directories of the node, so that the kubelet applies `fsGroup` to them. */
export function volumeManifests(node: string, { volumes }: Layout): readonly object[] {
  const storageClass = {
    apiVersion: 'storage.k8s.io/v1',
    kind: 'StorageClass',
    metadata: { name: 'standard', annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' } },
    provisioner: 'kubernetes.io/no-provisioner',
    volumeBindingMode: 'WaitForFirstConsumer',
  };
  const hostname = { key: 'kubernetes.io/hostname', operator: 'In', values: [node] };
  return [
    storageClass,
    ...volumeNames.map((name) => ({
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: { name, labels: { [LABEL]: 'true' } },
      spec: {
        capacity: { storage: '20Gi' },
        accessModes: ['ReadWriteOnce'],
        persistentVolumeReclaimPolicy: 'Retain',
        storageClassName: 'standard',
        local: { path: join(volumes, name) },
        nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [hostname] }] } },
      },
    })),
  ];
}

interface VolumeList {
  readonly items: readonly { metadata: { name: string }; status?: { phase?: string } }[];
}

const RECYCLE_MS = 3_000;

/** Empties a volume whose claim was deleted and offers it again, as a provisioner with `Delete` would. */
export function recycleVolumes(layout: Layout): void {
  for (const name of volumeNames) mkdirSync(join(layout.volumes, name), { recursive: true });
  const api: Api = { port: NETWORK.apiPort, pki: layout.pki };
  const again = () => setTimeout(pass, RECYCLE_MS);
  // A pass that fails (the API server restarts, say) is made good by the next one.
  const pass = () => recycleReleased(api, layout).then(again, again);
  void pass();
}

async function recycleReleased(api: Api, { volumes }: Layout): Promise<void> {
  const path = '/api/v1/persistentvolumes';
  const list = (await callApi(api, `${path}?labelSelector=${LABEL}`)) as VolumeList;
  for (const { metadata, status } of list.items) {
    if (status?.phase !== 'Released' || !volumeNames.includes(metadata.name)) continue;
    const directory = join(volumes, metadata.name);
    await mkdir(directory, { recursive: true });
    for (const entry of await readdir(directory)) await rm(join(directory, entry), { recursive: true });
    await callApi(api, `${path}/${metadata.name}`, {
      method: 'PATCH',
      contentType: 'application/merge-patch+json',
      body: { spec: { claimRef: null } },
    });
  }
}
