import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { Readable } from 'node:stream';

/** An image on disk: its configuration and layers are blobs, named by their SHA-256. */
export interface Image {
  /** Name and tag, for example `space/operator:0123456789ab`. */
  readonly reference: string;
  readonly config: string;
  readonly layers: readonly string[];
}

/** A docker archive of all `images` in one: what they share is in it once. */
export function archiveOf(images: readonly Image[], blobPath: (digest: string) => string): Readable {
  return Readable.from(entries(images, blobPath), { objectMode: false });
}

async function* entries(
  images: readonly Image[],
  blobPath: (digest: string) => string,
): AsyncGenerator<Buffer> {
  const digests = new Set(images.flatMap((image) => [image.config, ...image.layers]));
  for (const digest of digests) {
    const path = blobPath(digest);
    const { size } = await stat(path);
    yield tarHeader(digest, size);
    yield* createReadStream(path, { highWaterMark: 1024 * 1024 });
    yield padding(size);
  }
  const manifest = Buffer.from(
    JSON.stringify(
      images.map(({ reference, config, layers }) => ({
        Config: config,
        RepoTags: [reference],
        Layers: layers,
      })),
    ),
  );
  yield tarHeader('manifest.json', manifest.length);
  yield manifest;
  yield padding(manifest.length);
  yield Buffer.alloc(2 * BLOCK);
}

const BLOCK = 512;

const padding = (size: number) => Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK);

/** A POSIX ustar header of an ordinary file. */
function tarHeader(name: string, size: number): Buffer {
  const header = Buffer.alloc(BLOCK);
  const octal = (value: number, length: number) => `${value.toString(8).padStart(length - 1, '0')}\0`;
  header.write(name, 0, 100);
  header.write(octal(0o644, 8), 100);
  header.write(octal(0, 8), 108);
  header.write(octal(0, 8), 116);
  header.write(octal(size, 12), 124);
  header.write(octal(0, 12), 136);
  header.fill(' ', 148, 156); // the checksum counts itself as spaces
  header.write('0', 156);
  header.write('ustar\x0000', 257);
  const checksum = header.reduce((sum, byte) => sum + byte, 0);
  header.write(`${checksum.toString(8).padStart(6, '0')}\0 `, 148);
  return header;
}
