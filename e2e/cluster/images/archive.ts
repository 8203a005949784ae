import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import { padding, TAR_END, tarHeader } from './tar.ts';

/** An image on disk: its configuration and layers are blobs. */
export interface Image {
  /** Name and tag, for example `space/operator:0123456789ab`. */
  readonly reference: string;
  /** A further name on the node, which is moved to this image if it belonged to another. */
  readonly alias?: string;
  readonly config: Blob;
  readonly layers: readonly Blob[];
}

export interface Blob {
  /** SHA-256, and the name of its file. */
  readonly digest: string;
  readonly size: number;
}

export const blobsOf = ({ config, layers }: Pick<Image, 'config' | 'layers'>): readonly Blob[] => [
  config,
  ...layers,
];

/** One docker archive of all `images`; common layers are in it once. */
export function archiveOf(images: readonly Image[], blobPath: (digest: string) => string): Readable {
  return Readable.from(entries(images, blobPath), { objectMode: false });
}

async function* entries(
  images: readonly Image[],
  blobPath: (digest: string) => string,
): AsyncGenerator<Buffer> {
  const blobs = new Map(images.flatMap(blobsOf).map(({ digest, size }) => [digest, size]));
  for (const [digest, size] of blobs) {
    yield tarHeader(digest, size);
    yield* createReadStream(blobPath(digest), { highWaterMark: 1024 * 1024 });
    yield padding(size);
  }
  const manifest = Buffer.from(
    JSON.stringify(
      images.map(({ reference, config, layers }) => ({
        Config: config.digest,
        RepoTags: [reference],
        Layers: layers.map(({ digest }) => digest),
      })),
    ),
  );
  yield tarHeader('manifest.json', manifest.length);
  yield manifest;
  yield padding(manifest.length);
  yield TAR_END;
}
