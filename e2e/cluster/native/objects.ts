import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import type { Layout } from './layout.ts';
import { volumeManifests } from './volumes.ts';

const manifests = join(import.meta.dirname, '..', 'manifests');

/** What a cluster has from its first minute on: Calico's objects, the RuntimeClass, cluster DNS, storage. */
export async function baseObjects(name: string, layout: Layout, corednsImage: string): Promise<string> {
  const files = ['calico.yaml', 'gvisor.yaml', 'coredns.yaml'];
  const texts = await Promise.all(files.map((file) => readFile(join(manifests, file), 'utf8')));
  const documents = texts.flatMap((text) =>
    parseAllDocuments(text.replace('image: space/coredns', `image: ${corednsImage}`)),
  );
  const objects = documents.map((document) => document.toJS() as unknown);
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'List',
    items: [...objects, ...volumeManifests(name, layout)],
  });
}
