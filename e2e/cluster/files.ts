import { randomUUID } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';

/** Nobody ever reads half a file. */
export async function replaceFile(file: string, content: string, mode = 0o644): Promise<void> {
  const draft = `${file}.${randomUUID()}`;
  await writeFile(draft, content, { mode });
  await rename(draft, file);
}

/** The parsed content; undefined when there is no such file, or it is no JSON. */
export async function readJson<T>(file: string): Promise<T | undefined> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as T;
  } catch {
    return undefined;
  }
}
