import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import type { Layout } from './layout.ts';
import { volumeManifests } from './volumes.ts';

const manifests = join(import.meta.dirname, '..', 'manifests');

/** The objects that every cluster has: Calico's, the RuntimeClass, cluster DNS, storage. */
export async function baseObjects(nodes: readonly Layout[], corednsImage: string): Promise<string> {
  const files = ['calico.yaml', 'gvisor.yaml', 'coredns.yaml'];
  const texts = await Promise.all(files.map((file) => readFile(join(manifests, file), 'utf8')));
  const documents = texts.flatMap((text) =>
    parseAllDocuments(text.replace('image: space/coredns', `image: ${corednsImage}`)),
  );
  const objects = documents.map((document) => document.toJS() as unknown);
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'List',
    items: [...objects, ...nodes.map(nodeObject), ...volumeManifests(nodes)],
  });
}

/** Its pods have the addresses that the other nodes have a route to. No controller assigns others, also if its kubelet creates the object first. */
const nodeObject = ({ node, pods }: Layout) => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: node },
  spec: { podCIDR: pods, podCIDRs: [pods] },
});
