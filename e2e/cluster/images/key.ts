import { createHash } from 'node:crypto';
import { readdir, readFile, readlink, stat } from 'node:fs/promises';
import { join, relative } from 'node:path';

/** The images that a Dockerfile starts from, without those that are its own earlier stages. */
export function basesOf(dockerfile: string): readonly string[] {
  const bases: string[] = [];
  const stages = new Set<string>();
  for (const line of dockerfile.split('\n')) {
    const [, image, stage] = /^\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?\s*$/i.exec(line) ?? [];
    if (image === undefined) continue;
    if (image !== 'scratch' && !stages.has(image.toLowerCase())) bases.push(image);
    if (stage !== undefined) stages.add(stage.toLowerCase());
  }
  return [...new Set(bases)];
}

/** Hash of all that an image is made of: Dockerfile, every file of the context, and its bases' own keys. */
export async function imageKey(
  dockerfile: string,
  context: string,
  baseKeys: readonly string[],
): Promise<string> {
  const content = createHash('sha256');
  const entries = await readdir(context, { recursive: true, withFileTypes: true });
  const paths = entries
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name));
  for (const path of paths.sort()) {
    const link = await readlink(path).catch(() => undefined);
    const mode = link === undefined ? (await stat(path)).mode & 0o777 : 'link';
    content.update(`\0${relative(context, path)}\0${mode}\0`).update(link ?? (await readFile(path)));
  }
  return keyOf(dockerfile, baseKeys, content.digest('hex'));
}

/** The key when it is known what the context holds. */
export const keyOf = (dockerfile: string, baseKeys: readonly string[], content: string): string =>
  createHash('sha256')
    .update(JSON.stringify([dockerfile, baseKeys, content]))
    .digest('hex')
    .slice(0, 16);
