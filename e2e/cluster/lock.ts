import { randomUUID } from 'node:crypto';
import { link, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type Identity, identityOf, isAlive } from './native/identity.ts';

/**
 * Does `work` while no other process does something under the same lock file. A holder that ended without letting go
 * (its pid and start time are in the file) does not count.
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

/** A link appears whole or not at all, and only when there is none. */
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

/** Moves the lock of an ended process out of the way; of several that try, one succeeds. */
async function clearStale(file: string): Promise<void> {
  const text = await readFile(file, 'utf8').catch(() => undefined);
  if (text === undefined || isHeld(text)) return;
  const aside = `${file}.${randomUUID()}`;
  await rename(file, aside).catch(() => undefined);
  // Somebody was faster, and what was moved is a lock that holds: it goes back.
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
