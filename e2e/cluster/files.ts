import { randomUUID } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';

/** Replaces a file so that no reader sees it incomplete. */
export async function replaceFile(file: string, content: string, mode = 0o644): Promise<void> {
  const draft = `${file}.${randomUUID()}`;
  await writeFile(draft, content, { mode });
  await rename(draft, file);
}

/** The parsed content; undefined if there is no such file, or it is no JSON. */
export async function readJson<T>(file: string): Promise<T | undefined> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as T;
  } catch {
    return undefined;
  }
}
