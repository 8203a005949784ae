import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Platform, S3_SERVER } from '../cluster/index.ts';
import { imageValues, platformsOf, pushLines } from './air-gap.ts';
import { IMAGE_SOURCES } from './images.ts';
import { type Helm, objectsIn, podsIn, startHelm } from './testing/rendered.ts';

const names = [...IMAGE_SOURCES.map(({ name }) => name), S3_SERVER.name];
const carried = names.map((name, at) => ({
  name,
  reference: `${name}:1`,
  digest: `sha256:${String(at).repeat(64)}`,
}));

let helm: Helm;
let directory: string;
beforeAll(async () => {
  helm = await startHelm();
  directory = await mkdtemp(join(tmpdir(), 'space-air-gap-'));
}, 600_000);
afterAll(async () => {
  await helm?.close();
  await rm(directory, { recursive: true, force: true });
});

it('the chart uses every image from the one registry, by the digest in the archive', async () => {
  const file = join(directory, 'images.yaml');
  await writeFile(file, imageValues(carried));
  const { code, stdout, stderr } = await helm.templateBare(
    ...['-f', file, '--set', 'image.registry=registry.test:5000/home'],
  );
  expect([code, stderr]).toEqual([0, '']);
  const known = carried.map(({ name, digest }) => `registry.test:5000/home/${name}@${digest}`);
  const used = [...podsIn(objectsIn(stdout)).values()].map(({ containers }) => containers[0].image);
  expect(used.filter((image) => !known.includes(image))).toEqual([]);
  // The archive also contains the example, which no value names.
  expect(new Set(used).size).toBe(known.length - 1);
});

it('each image is copied into the registry under the name in the values, for one platform or for all', () => {
  const copied = (all: string) =>
    `skopeo copy${all} --preserve-digests oci-archive:/tmp/space.tar:space/operator:1 docker://$REGISTRY/space/operator:1`;
  const lines = (...platforms: Platform[]) => pushLines('/tmp/space.tar', carried, platforms);
  expect(lines('linux/arm64')[0]).toBe(copied(''));
  expect(lines('linux/amd64', 'linux/arm64')[0]).toBe(copied(' --all'));
});

it('platforms are those that are named, each once, by default this machine’s own', () => {
  expect(platformsOf('linux/arm64,linux/amd64,linux/arm64')).toEqual(['linux/arm64', 'linux/amd64']);
  expect(platformsOf()).toEqual([`linux/${process.arch === 'x64' ? 'amd64' : 'arm64'}`]);
  for (const wrong of ['arm64', 'linux/s390x', '', 'linux/amd64,'])
    expect(() => platformsOf(wrong)).toThrow('linux/amd64, linux/arm64');
});

it('values of an archive that lacks an image are refused by its name', () => {
  expect(() => imageValues(carried.slice(1))).toThrow('space/operator');
});
