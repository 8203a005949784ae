import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import {
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { homedir } from 'node:os';
import { join, relative } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { locked } from '../lock.ts';

/** The cache is outside the repository, so that every checkout shares it. */
export function cacheRoot(env: NodeJS.ProcessEnv = process.env, home: string = homedir()): string {
  const base = env['XDG_CACHE_HOME'];
  return join(base === undefined || base === '' ? join(home, '.cache') : base, 'space');
}

const MANIFEST = 'entry.json';

/** The state of every file of the entry when it was published, by path. */
type Manifest = Readonly<Record<string, FileMark>>;

interface FileMark {
  readonly size: number;
  /** The time of the last change in milliseconds: while it is the same, the content need not be read. */
  readonly changed: number;
  readonly sha256: string;
}

/**
 * The directory of a complete, undamaged entry; undefined if there is none, or if it was damaged and has been
 * removed.
 */
export async function findEntry(root: string, name: string): Promise<string | undefined> {
  const directory = join(root, name);
  const text = await readFile(join(directory, MANIFEST), 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  if (await isWhole(directory, text)) {
    await touch(join(directory, MANIFEST));
    return directory;
  }
  await rm(directory, { recursive: true, force: true });
  return undefined;
}

/** Marks a file of the cache as used, since files that were not used for long are removed. */
export async function touch(file: string, now: Date = new Date()): Promise<void> {
  await utimes(file, now, now);
}

const UNUSED_DAYS = 7;

export const isUnused = (lastUsed: Date, now: Date = new Date()): boolean =>
  now.getTime() - lastUsed.getTime() > UNUSED_DAYS * 24 * 60 * 60 * 1000;

/** Removes entries that were not used for a week, which belong to former pins and patches. */
export async function pruneEntries(root: string, now: Date = new Date()): Promise<void> {
  for (const name of await readdir(root)) {
    // A draft has no list of files yet, so its directory shows its age. One that another process completes meanwhile
    // has none.
    const found = await stat(join(root, name, MANIFEST))
      .catch(() => stat(join(root, name)))
      .catch(() => undefined);
    if (found !== undefined && isUnused(found.mtime, now))
      await rm(join(root, name), { recursive: true, force: true });
  }
}

/**
 * Returns the entry's directory; if there is none, `fill` creates its content. Only a complete entry appears under
 * its name, since a rename is atomic. If two processes want an entry that does not exist, the second waits for the
 * first.
 */
export async function ensureEntry(root: string, name: string, fill: Fill): Promise<string> {
  const found = await findEntry(root, name);
  if (found !== undefined) return found;
  const lock = `${root}.${name}.lock`;
  const waiting = () => undefined;
  return locked(lock, waiting, async () => (await findEntry(root, name)) ?? makeEntry(root, name, fill));
}

type Fill = (draft: string) => Promise<void>;

async function makeEntry(root: string, name: string, fill: Fill): Promise<string> {
  await mkdir(root, { recursive: true });
  const draft = await mkdtemp(join(root, '.draft-'));
  try {
    await fill(draft);
    await writeFile(join(draft, MANIFEST), JSON.stringify(await manifestOf(draft)));
    await rename(draft, join(root, name)).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
    });
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
  await pruneEntries(root);
  return join(root, name);
}

/** A temporary directory, on the same file system as the cache, so that a result can be moved there by a rename. */
export async function withScratch<T>(purpose: string, work: (directory: string) => Promise<T>): Promise<T> {
  const root = join(cacheRoot(), 'scratch');
  await mkdir(root, { recursive: true });
  await pruneEntries(root); // those of commands that were killed
  const directory = await mkdtemp(join(root, `${purpose}-`));
  try {
    return await work(directory);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function isWhole(directory: string, manifest: string): Promise<boolean> {
  try {
    const expected = Object.entries(JSON.parse(manifest) as Manifest);
    return (await Promise.all(expected.map(([path, mark]) => isUnharmed(join(directory, path), mark)))).every(
      Boolean,
    );
  } catch {
    return false; // not readable, so not to be used
  }
}

async function isUnharmed(file: string, { size, changed, sha256 }: FileMark): Promise<boolean> {
  const now = await stat(file);
  if (now.size !== size) return false;
  return now.mtimeMs === changed || (await sha256Of(file)) === sha256;
}

async function manifestOf(directory: string): Promise<Manifest> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const described = files.map(async (file) => [relative(directory, file), await markOf(file)] as const);
  return Object.fromEntries(await Promise.all(described));
}

/** The file is flushed to the disk before it is recorded, so that after a power failure no entry has empty files. */
async function markOf(file: string): Promise<FileMark> {
  const handle = await open(file);
  try {
    await handle.sync();
    const { size, mtimeMs } = await handle.stat();
    return { size, changed: mtimeMs, sha256: await sha256Of(file) };
  } finally {
    await handle.close();
  }
}

export async function sha256Of(file: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file, { highWaterMark: 1024 * 1024 }), hash);
  return hash.digest('hex');
}
