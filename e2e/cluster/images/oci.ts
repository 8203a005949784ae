import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import { namesOf, type Platform } from '../platform.ts';
import { blobsOf, type Image } from './archive.ts';
import { padding, TAR_END, tarHeader } from './tar.ts';

const OCI = 'application/vnd.oci.image';
const LAYOUT = Buffer.from('{"imageLayoutVersion":"1.0.0"}');

/**
 * What a registry has under one name: an image, or an index with one for each platform, from which a node takes its
 * own.
 */
export interface Published {
  readonly reference: string;
  readonly images: readonly (Pick<Image, 'config' | 'layers'> & { readonly platform: Platform })[];
}

/** A file of the archive that others name by its digest. */
interface Document {
  readonly type: string;
  readonly bytes: Buffer;
}

const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

const documentOf = (type: string, content: object): Document => ({
  type: `${OCI}.${type}`,
  bytes: Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType: `${OCI}.${type}`, ...content })),
});

const descriptorOf = ({ type, bytes }: Document) => ({
  mediaType: type,
  digest: `sha256:${sha256(bytes)}`,
  size: bytes.length,
});

/** Layers are stored as they were built, not compressed; the whole archive can be compressed for transport. */
function manifestOf({ config, layers }: Pick<Image, 'config' | 'layers'>): Document {
  const blob = (type: string, { digest, size }: Image['config']) => ({
    mediaType: `${OCI}.${type}`,
    digest: `sha256:${digest}`,
    size,
  });
  return documentOf('manifest.v1+json', {
    config: blob('config.v1+json', config),
    layers: layers.map((layer) => blob('layer.v1.tar', layer)),
  });
}

/** All documents that describe it; the last is the one that its name leads to. */
function documentsOf({ images }: Published): readonly [...Document[], Document] {
  const manifests = images.map((image) => ({ platform: image.platform, manifest: manifestOf(image) }));
  const [only, ...others] = manifests;
  if (only !== undefined && others.length === 0) return [only.manifest];
  const index = documentOf('index.v1+json', {
    manifests: manifests.map(({ platform, manifest }) => ({
      ...descriptorOf(manifest),
      platform: { architecture: namesOf(platform).debian, os: 'linux' },
    })),
  });
  return [...manifests.map(({ manifest }) => manifest), index];
}

const namedBy = (published: Published): Document => documentsOf(published).at(-1) as Document;

/** The digest in a registry that received the image unchanged from an archive. */
export const ociDigest = (published: Published): string => descriptorOf(namedBy(published)).digest;

/** One OCI archive of all of them, each under its reference; common layers are in it once. */
export function ociArchiveOf(all: readonly Published[], blobPath: (digest: string) => string): Readable {
  return Readable.from(entries(all, blobPath), { objectMode: false });
}

async function* entries(
  all: readonly Published[],
  blobPath: (digest: string) => string,
): AsyncGenerator<Buffer> {
  const images = all.flatMap((published) => published.images);
  const blobs = new Map(images.flatMap(blobsOf).map(({ digest, size }) => [digest, size]));
  for (const [digest, size] of blobs) {
    yield tarHeader(`blobs/sha256/${digest}`, size);
    yield* createReadStream(blobPath(digest), { highWaterMark: 1024 * 1024 });
    yield padding(size);
  }
  for (const { bytes } of all.flatMap(documentsOf)) yield* file(`blobs/sha256/${sha256(bytes)}`, bytes);
  yield* file('oci-layout', LAYOUT);
  yield* file('index.json', indexOf(all));
  yield TAR_END;
}

const indexOf = (all: readonly Published[]): Buffer =>
  documentOf('index.v1+json', {
    manifests: all.map((published) => ({
      ...descriptorOf(namedBy(published)),
      annotations: { 'org.opencontainers.image.ref.name': published.reference },
    })),
  }).bytes;

const file = (name: string, bytes: Buffer) => [tarHeader(name, bytes.length), bytes, padding(bytes.length)];
