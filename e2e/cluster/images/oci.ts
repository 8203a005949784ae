import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import { blobsOf, type Image } from './archive.ts';
import { padding, TAR_END, tarHeader } from './tar.ts';

const OCI = 'application/vnd.oci.image';
const LAYOUT = Buffer.from('{"imageLayoutVersion":"1.0.0"}');

const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

/** Layers are as they were built, not compressed: what carries the archive away may do that to all of it. */
function manifestOf({ config, layers }: Image): Buffer {
  const blob = (type: string, { digest, size }: Image['config']) => ({
    mediaType: `${OCI}.${type}`,
    digest: `sha256:${digest}`,
    size,
  });
  return Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: `${OCI}.manifest.v1+json`,
      config: blob('config.v1+json', config),
      layers: layers.map((layer) => blob('layer.v1.tar', layer)),
    }),
  );
}

/** By which a registry has the image that it was given as it is in an archive. */
export const ociDigest = (image: Image): string => `sha256:${sha256(manifestOf(image))}`;

/** An OCI archive of all `images` in one, each by its reference: what they share is in it once. */
export function ociArchiveOf(images: readonly Image[], blobPath: (digest: string) => string): Readable {
  return Readable.from(entries(images, blobPath), { objectMode: false });
}

async function* entries(
  images: readonly Image[],
  blobPath: (digest: string) => string,
): AsyncGenerator<Buffer> {
  const blobs = new Map(images.flatMap(blobsOf).map(({ digest, size }) => [digest, size]));
  for (const [digest, size] of blobs) {
    yield tarHeader(`blobs/sha256/${digest}`, size);
    yield* createReadStream(blobPath(digest), { highWaterMark: 1024 * 1024 });
    yield padding(size);
  }
  const manifests = images.map((image) => ({ reference: image.reference, bytes: manifestOf(image) }));
  for (const { bytes } of manifests) yield* file(`blobs/sha256/${sha256(bytes)}`, bytes);
  yield* file('oci-layout', LAYOUT);
  yield* file('index.json', indexOf(manifests));
  yield TAR_END;
}

const indexOf = (manifests: readonly { readonly reference: string; readonly bytes: Buffer }[]): Buffer =>
  Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: `${OCI}.index.v1+json`,
      manifests: manifests.map(({ reference, bytes }) => ({
        mediaType: `${OCI}.manifest.v1+json`,
        digest: `sha256:${sha256(bytes)}`,
        size: bytes.length,
        annotations: { 'org.opencontainers.image.ref.name': reference },
      })),
    }),
  );

const file = (name: string, bytes: Buffer) => [tarHeader(name, bytes.length), bytes, padding(bytes.length)];
