import { createWriteStream } from 'node:fs';
import { copyFile, cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { withScratch } from '../builds/cache.ts';
import { KUBERNETES_VERSION } from '../builds/pins.ts';
import { archiveOf, type Image } from '../images/archive.ts';
import type { ImageBuilder } from '../images/builder.ts';
import { imageKey } from '../images/key.ts';
import { ownImages } from '../native/images.ts';
import { run } from '../run.ts';

const COMPONENTS = ['kubernetes', 'kind-node', 'containerd', 'runc', 'cni', 'kind', 'versitygw'] as const;
type Programs = Readonly<Record<(typeof COMPONENTS)[number], string>>;
type Built = (component: string) => Promise<string>;

/** The images that the engine needs before the first `up`: the node's, and the bases of the Dockerfiles here. */
export async function labImages(
  builder: ImageBuilder,
  built: Built,
): Promise<{ node: Image; bases: readonly Image[] }> {
  const entries: [string, string][] = [];
  for (const component of COMPONENTS) entries.push([component, await built(component)]);
  const programs = Object.fromEntries(entries) as Programs;
  const known = await knownImages(builder, programs, built);
  const recipe = join(import.meta.dirname, 'node');
  const node = await withScratch('kind-node', (context) =>
    builder.ensure({
      name: 'space/kind-node',
      dockerfile: join(recipe, 'Dockerfile'),
      context,
      content: async () =>
        JSON.stringify([names(Object.values(programs)), known, await imageKey('', recipe, [])]),
      buildContext: async () => {
        await fillNode(context, recipe, programs);
        const archive = join(context, 'root/kind/images.tar');
        await pipeline(archiveOf(known, builder.store.blobPath), createWriteStream(archive));
      },
    }),
  );
  const bases: Image[] = [];
  for (const base of ['debian:trixie-slim', 'node:26-trixie-slim'])
    bases.push(await baseImage(builder, base));
  return { node, bases };
}

/** The name of a cache entry identifies its content. */
const names = (entries: readonly string[]) => entries.map((path) => basename(path));

/** An image that consists only of its base, under the base's name. */
const baseImage = (builder: ImageBuilder, reference: string): Promise<Image> =>
  withScratch('base', async (context) => {
    const dockerfile = join(context, 'Dockerfile');
    await writeFile(dockerfile, `FROM ${reference}\n`);
    const [name = '', tag = ''] = reference.split(':');
    return builder.ensure({ name, tag, dockerfile, context });
  });

/** The image that kind's own containerd configuration names. */
const SANDBOX = 'registry.k8s.io/pause:3.10';

/** The images that kubeadm, kind and the chart name, under those names, so that nothing is pulled. */
async function knownImages(
  builder: ImageBuilder,
  programs: Programs,
  built: Built,
): Promise<readonly Image[]> {
  const own = ownImages(builder, Promise.resolve(), built);
  const kubernetes = await withScratch('kind-kubernetes', (context) =>
    builder.ensure({
      name: 'space/kind-kubernetes',
      dockerfile: join(import.meta.dirname, 'kubernetes', 'Dockerfile'),
      context,
      content: async () => JSON.stringify(names([programs.kubernetes, programs['kind-node']])),
      buildContext: async () => {
        for (const name of ['kubernetes', 'etcd'])
          await copyFile(join(programs.kubernetes, name), join(context, name));
        await copyFile(join(programs['kind-node'], PROVISIONER), join(context, PROVISIONER));
      },
    }),
  );
  const [pause, coredns, s3] = await Promise.all([own.pause, own.coredns, own.versitygw]);
  const kubeadm = join(programs['kind-node'], 'kubeadm');
  const listed = await run([kubeadm, 'config', 'images', 'list', '--kubernetes-version', KUBERNETES_VERSION]);
  const imageOf = (name: string) =>
    name.includes('/coredns') ? coredns : name.includes('/pause') ? pause : kubernetes;
  const { images } = await storage(programs.kind);
  const wanted = new Set([...listed.trim().split('\n'), SANDBOX, ...images]);
  return [
    ...[...wanted].map((reference) => ({ ...imageOf(reference), reference })),
    { ...s3, reference: `docker.io/${s3.reference}` },
  ];
}

const PROVISIONER = 'local-path-provisioner';

/** The images and the manifest of kind's default StorageClass, which are constants of its source. */
async function storage(kind: string): Promise<{ images: readonly string[]; manifest: string }> {
  const source = await readFile(join(kind, 'nodeimage', 'const_storage.go'), 'utf8');
  const images = new Map(
    [...source.matchAll(/^const (\w+Image) = "([^"]+)"/gm)].map(([, name = '', image = '']) => [name, image]),
  );
  const text = source.split('const defaultStorageManifest = `')[1] ?? '';
  const manifest = text
    .slice(0, text.lastIndexOf('`'))
    .replace(/` \+ (\w+) \+ `/g, (_, name: string) => images.get(name) ?? name);
  return { images: [...images.values()], manifest };
}

async function fillNode(context: string, recipe: string, programs: Programs): Promise<void> {
  await cp(join(programs.kind, 'base'), join(context, 'base'), { recursive: true });
  const root = join(context, 'root');
  await cp(join(recipe, 'root'), root, { recursive: true });
  const put = async (from: string, to: string) => {
    await mkdir(dirname(join(root, to)), { recursive: true });
    await copyFile(from, join(root, to));
  };
  for (const name of ['containerd', 'ctr', 'containerd-shim-runc-v2'])
    await put(join(programs.containerd, name), `usr/local/bin/${name}`);
  await put(join(programs.runc, 'runc'), 'usr/local/sbin/runc');
  await put(join(programs['kind-node'], 'kubeadm'), 'usr/bin/kubeadm');
  for (const name of ['kubelet', 'kubectl'])
    await put(join(programs.kubernetes, 'kubernetes'), `usr/bin/${name}`);
  for (const name of ['host-local', 'loopback', 'portmap'])
    await put(join(programs.cni, 'cni', name), `opt/cni/bin/${name}`);
  await mkdir(join(root, 'kind', 'manifests'), { recursive: true });
  const { manifest } = await storage(programs.kind);
  await writeFile(join(root, 'kind/manifests/default-storage.yaml'), manifest);
  await writeFile(join(root, 'kind/version'), KUBERNETES_VERSION);
}
