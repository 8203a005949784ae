import { resolve } from 'node:path';
import { type BundleName, bundle } from '../../scripts/bundle.ts';
import type { ImageSource } from '../cluster/index.ts';

const ROOT = resolve(import.meta.dirname, '../..');

/** An image around a bundle. The cluster asks for its build context several times, and one bundle serves all. */
function bundled(name: BundleName, dockerfile: string): ImageSource {
  let written: Promise<void> | undefined;
  return {
    name: `space/${name}`,
    dockerfile: resolve(ROOT, dockerfile),
    context: resolve(ROOT, 'dist', name),
    buildContext() {
      written ??= bundle(name);
      return written;
    },
  };
}

/**
 * The images of this repository, each with an ordinary Dockerfile. The key is the chart value that names it, if there
 * is one.
 */
export const IMAGES = {
  'operator.image': bundled('operator', 'operator/Dockerfile'),
  'dbBroker.image': bundled('db-broker', 'brokers/db/Dockerfile'),
  'egress.image': bundled('egress', 'brokers/egress/Dockerfile'),
  'objectStore.image': bundled('objectstore-broker', 'brokers/objectstore/Dockerfile'),
  'console.image': bundled('console', 'console/Dockerfile'),
  'postgres.image': {
    name: 'space/postgres',
    dockerfile: resolve(ROOT, 'brokers/db/postgres/Dockerfile'),
    context: resolve(ROOT, 'brokers/db/postgres'),
  },
  'sandbox.attester.image': {
    name: 'space/attester',
    dockerfile: resolve(ROOT, 'operator/sandbox/attester/Dockerfile'),
    context: resolve(ROOT, 'operator/sandbox/attester'),
  },
  // The examples contain this name, so that they can be applied as they are.
  ledger: { ...bundled('ledger', 'manifests/examples/ledger/Dockerfile'), alias: 'dev' },
} as const satisfies Record<string, ImageSource>;

export const IMAGE_SOURCES: readonly ImageSource[] = Object.values(IMAGES);

/** The reference under which the cluster knows an image. */
export function referenceOf(references: ReadonlyMap<string, string>, image: keyof typeof IMAGES): string {
  const reference = references.get(IMAGES[image].name);
  if (reference === undefined) throw new Error(`the cluster has no image ${IMAGES[image].name}`);
  return reference;
}
