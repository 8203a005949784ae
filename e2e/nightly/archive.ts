import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { run } from '../cluster/run.ts';

/** An unpacked OCI archive, with a directory for each layer. */
export interface Unpacked {
  /** Images by reference: their digest in the index, and the image of each platform. */
  readonly names: ReadonlyMap<string, Named>;
}

interface Named {
  readonly digest: string;
  readonly images: ReadonlyMap<string, UnpackedImage>;
}

interface UnpackedImage {
  readonly config: Config;
  /** Directories, the lowest layer first. */
  readonly layers: readonly string[];
}

interface Config {
  readonly architecture: string;
  readonly os: string;
  readonly config: { readonly Entrypoint?: readonly string[]; readonly Cmd?: readonly string[] };
}

interface Descriptor {
  readonly digest: string;
  readonly platform?: { readonly os: string; readonly architecture: string };
  readonly annotations?: Readonly<Record<string, string>>;
}

interface Document {
  readonly manifests: readonly Descriptor[];
  readonly config: Descriptor;
  readonly layers: readonly Descriptor[];
}

export async function unpack(archive: string, directory: string): Promise<Unpacked> {
  const layout = join(directory, 'layout');
  mkdirSync(layout);
  await run(['tar', '--extract', '--directory', layout, '--file', archive]);
  const blob = (digest: string) => join(layout, 'blobs', digest.replace(':', '/'));
  const read = (file: string): Document => JSON.parse(readFileSync(file, 'utf8'));

  const layerOf = async (digest: string): Promise<string> => {
    const layer = join(directory, digest.replace(':', '-'));
    if (existsSync(layer)) return layer;
    mkdirSync(layer);
    await run(['tar', '--extract', '--directory', layer, '--file', blob(digest)]);
    return layer;
  };
  const imageOf = async (digest: string): Promise<UnpackedImage> => {
    const { config, layers } = read(blob(digest));
    const directories: string[] = [];
    for (const layer of layers) directories.push(await layerOf(layer.digest));
    return { config: JSON.parse(readFileSync(blob(config.digest), 'utf8')), layers: directories };
  };
  const names = new Map<string, Named>();
  for (const { digest, annotations } of read(join(layout, 'index.json')).manifests) {
    const images = new Map<string, UnpackedImage>();
    for (const { digest: manifest, platform } of read(blob(digest)).manifests)
      images.set(`${platform?.os}/${platform?.architecture}`, await imageOf(manifest));
    names.set(annotations?.['org.opencontainers.image.ref.name'] ?? '', { digest, images });
  }
  return { names };
}
