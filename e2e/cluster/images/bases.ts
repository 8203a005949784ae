import { createHash } from 'node:crypto';
import { copyFile, cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ensureEntry, withScratch } from '../builds/cache.ts';
import { inKey, namesOf, OWN, type Platform } from '../platform.ts';
import { run } from '../run.ts';
import { emulatedIfNeeded } from './emulation.ts';
import { nodePin, nodeProgram } from './node-program.ts';

/** A base image of Dockerfiles that is built here, since there is no registry to pull it from. */
export interface Base {
  readonly reference: string;
  readonly platform: Platform;
  readonly key: () => Promise<string>;
  readonly from: readonly Base[];
  /** Fills a build context, including its Dockerfile. */
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

/** The settings of Debian's own image: apt keeps no copies of downloads, and dpkg omits documentation. */
const APT = `APT::Keep-Downloaded-Packages "false";
Binary::apt-get::APT::Keep-Downloaded-Packages "false";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Acquire::Languages "none";
`;
const DPKG = ['doc', 'man', 'info', 'locale', 'lintian']
  .map((name) => `path-exclude /usr/share/${name}/*\n`)
  .join('');

const debian = (platform: Platform): Base => ({
  reference: `debian:${SUITE}-slim`,
  platform,
  from: [],
  key: async () =>
    hashOf(await readFile(recipe('debian'), 'utf8'), SUITE, APT, DPKG, ...SLIMMED, ...inKey(platform)),
  async fill(context, { cache, log }) {
    const entry = await ensureEntry(join(cache, 'bases'), `debian-${await this.key()}`, (draft) =>
      bootstrap(draft, platform, log),
    );
    await cp(recipe('debian'), join(context, 'Dockerfile'));
    await copyFile(join(entry, 'root.tar'), join(context, 'root.tar'));
  },
});

function bootstrap(draft: string, platform: Platform, log: string): Promise<void> {
  return withScratch('debian', async (root) => {
    // debootstrap mounts /proc in there; in a mount namespace of its own nothing stays mounted if it is killed.
    const alone = ['unshare', '--mount', 'debootstrap'] as const;
    const options = [`--arch=${namesOf(platform).debian}`, '--variant=minbase'];
    await run(emulatedIfNeeded(platform, [...alone, ...options, SUITE, root]), { log });
    await Promise.all(SLIMMED.map((path) => rm(join(root, path), { recursive: true, force: true })));
    for (const path of ['lib/apt/lists/partial', 'cache/apt/archives/partial', 'log/apt'])
      await mkdir(join(root, 'var', path), { recursive: true });
    await writeFile(join(root, 'etc/apt/apt.conf.d/slim'), APT);
    await writeFile(join(root, 'etc/dpkg/dpkg.cfg.d/slim'), DPKG);
    const archive = join(draft, 'root.tar');
    await run(['tar', '--numeric-owner', '--directory', root, '--create', '--file', archive, '.'], { log });
  });
}

const node = (platform: Platform): Base => ({
  reference: 'node:26-trixie-slim',
  platform,
  from: [debian(platform)],
  async key() {
    const { version } = await nodePin(platform);
    return hashOf(await debian(platform).key(), version, await readFile(recipe('node'), 'utf8'));
  },
  async fill(context, { cache, log }) {
    await cp(recipe('node'), join(context, 'Dockerfile'));
    const strip = platform === OWN ? 'strip' : `${namesOf(platform).gnu}-strip`;
    await run([strip, '-o', join(context, 'node'), await nodeProgram(platform, { cache, log })], { log });
  },
});

export const basesOn = (platform: Platform): readonly Base[] => [debian(platform), node(platform)];
