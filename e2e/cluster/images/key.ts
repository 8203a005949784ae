import { createHash } from 'node:crypto';
import { readdir, readFile, readlink, stat } from 'node:fs/promises';
import { join, relative } from 'node:path';

/** An image that a Dockerfile starts from, other than its own earlier stages. */
export interface BaseUse {
  readonly reference: string;
  /**
   * Whether it is for the stage `build`, whose results the image copies: that stage runs on this machine's own
   * processor.
   */
  readonly toBuild: boolean;
}

const FROM = /^(\s*FROM\s+)((?:--\S+\s+)*)(\S+)(?:\s+AS\s+(\S+))?\s*$/i;
const BUILD_STAGE = 'build';

/** The Dockerfile with each base image replaced by the result of `name`. */
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

/** The base images, each once. */
export function basesOf(dockerfile: string): readonly BaseUse[] {
  const uses = new Map<string, BaseUse>();
  onBases(dockerfile, (use) => {
    uses.set(JSON.stringify(use), use);
    return use.reference;
  });
  return [...uses.values()];
}

/**
 * A hash of everything that an image consists of: Dockerfile, every file of the context, and the keys of its bases.
 */
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

/** The key, if the content of the context is known. */
export const keyOf = (dockerfile: string, baseKeys: readonly string[], content: string): string =>
  createHash('sha256')
    .update(JSON.stringify([dockerfile, baseKeys, content]))
    .digest('hex')
    .slice(0, 16);
