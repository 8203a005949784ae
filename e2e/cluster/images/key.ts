import { createHash } from 'node:crypto';
import { readdir, readFile, readlink, stat } from 'node:fs/promises';
import { join, relative } from 'node:path';

/** An image that a Dockerfile starts from, which is none of its own earlier stages. */
export interface BaseUse {
  readonly reference: string;
  /** For the stage `build`, which only makes what the image then copies: it runs on this machine's own processor. */
  readonly toBuild: boolean;
}

const FROM = /^(\s*FROM\s+)((?:--\S+\s+)*)(\S+)(?:\s+AS\s+(\S+))?\s*$/i;
const BUILD_STAGE = 'build';

/** The Dockerfile with what `name` answers in place of each image that it starts from. */
export function onBases(dockerfile: string, name: (use: BaseUse) => string): string {
  const stages = new Set<string>();
  const lines = dockerfile.split('\n').map((line) => {
    const [, from = '', flags = '', image, stage] = FROM.exec(line) ?? [];
    if (image === undefined) return line;
    const isOwn = image === 'scratch' || stages.has(image.toLowerCase());
    if (stage !== undefined) stages.add(stage.toLowerCase());
    if (isOwn) return line;
    const other = name({ reference: image, toBuild: stage?.toLowerCase() === BUILD_STAGE });
    return `${from}${flags}${other}${stage === undefined ? '' : ` AS ${stage}`}`;
  });
  return lines.join('\n');
}

/** Each once. */
export function basesOf(dockerfile: string): readonly BaseUse[] {
  const uses = new Map<string, BaseUse>();
  onBases(dockerfile, (use) => {
    uses.set(JSON.stringify(use), use);
    return use.reference;
  });
  return [...uses.values()];
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
