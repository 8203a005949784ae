import { stringify } from 'yaml';
import {
  type ArchivedImage,
  isPlatform,
  OWN,
  PLATFORMS,
  type Platform,
  S3_SERVER,
} from '../cluster/index.ts';
import { IMAGE_VALUES } from './chart.ts';
import { IMAGES } from './images.ts';

type Value = (typeof IMAGE_VALUES)[number];

const nameOf = (value: Value): string => (value === 's3.image' ? S3_SERVER.name : IMAGES[value].name);

/** Values of the chart that name each image by its digest; `image.registry` names the registry. */
export function imageValues(carried: readonly Pick<ArchivedImage, 'name' | 'digest'>[]): string {
  const values: Record<string, unknown> = {};
  for (const value of IMAGE_VALUES) {
    const repository = nameOf(value);
    const digest = carried.find(({ name }) => name === repository)?.digest;
    if (digest === undefined) throw new Error(`the archive has no image ${repository}`);
    // No two of these values have the same first part.
    const [part = '', ...rest] = value.split('.');
    values[part] = rest.reduceRight<object>((inner, key) => ({ [key]: inner }), { repository, digest });
  }
  return stringify(values);
}

/** The platforms in `--platform`, each once; by default this machine's own. */
export function platformsOf(said: string = OWN): readonly Platform[] {
  const platforms = said.split(',').map((one) => {
    if (isPlatform(one)) return one;
    throw new Error(`--platform: ${one} is unknown. Use one of ${PLATFORMS.join(', ')}`);
  });
  return [...new Set(platforms)];
}

/** Commands that copy the images from the archive into a registry, unchanged. */
export const pushLines = (
  file: string,
  carried: readonly ArchivedImage[],
  platforms: readonly Platform[],
): readonly string[] => {
  const all = platforms.length > 1 ? ' --all' : '';
  return carried.map(
    ({ reference }) =>
      `skopeo copy${all} --preserve-digests oci-archive:${file}:${reference} docker://$REGISTRY/${reference}`,
  );
};
