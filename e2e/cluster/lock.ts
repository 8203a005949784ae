import { randomUUID } from 'node:crypto';
import { link, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type Identity, identityOf, isAlive } from './native/identity.ts';

/**
 * Runs `work` while no other process runs under the same lock file. A holder that ended without releasing it does not
 * count (its pid and start time are in the file).
 */
export async function locked<T>(file: string, waiting: () => void, work: () => Promise<T>): Promise<T> {
  await mkdir(dirname(file), { recursive: true });
  const own = JSON.stringify(identityOf(process.pid));
  let told = false;
  while (!(await take(file, own))) {
    await clearStale(file);
    if (!told) waiting();
    told = true;
    await delay(200);
  }
  try {
    return await work();
  } finally {
    await rm(file, { force: true });
  }
}

/** A link is created completely or not at all, and only if there is none. */
async function take(file: string, own: string): Promise<boolean> {
  const draft = `${file}.${randomUUID()}`;
  await writeFile(draft, own);
  try {
    await link(draft, file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    await rm(draft, { force: true });
  }
}

/** Moves the lock of an ended process away; if several processes try, one succeeds. */
async function clearStale(file: string): Promise<void> {
  const text = await readFile(file, 'utf8').catch(() => undefined);
  if (text === undefined || isHeld(text)) return;
  const aside = `${file}.${randomUUID()}`;
  await rename(file, aside).catch(() => undefined);
  // Another process was faster, and the moved file is a lock that is held, so it is put back.
  const moved = await readFile(aside, 'utf8').catch(() => text);
  if (moved !== text) await link(aside, file).catch(() => undefined);
  await rm(aside, { force: true });
}

function isHeld(text: string): boolean {
  try {
    return isAlive(JSON.parse(text) as Identity);
  } catch {
    return false;
  }
}
