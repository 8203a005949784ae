import { readFile } from 'node:fs/promises';
import { imageKey } from './images/key.ts';
import type { ImageSource } from './model.ts';
import { run } from './run.ts';

/** True when a Docker engine answers on this machine. */
export const dockerAnswers = (): Promise<boolean> =>
  run(['docker', 'info', '--format', '{{.ServerVersion}}']).then(
    () => true,
    () => false,
  );

/** Builds an image unless the engine has it; returns its reference, whose tag is the hash of its contents. */
export async function dockerBuild(source: ImageSource, log: string, registry?: string): Promise<string> {
  await source.buildContext?.();
  const key = await imageKey(await readFile(source.dockerfile, 'utf8'), source.context, []);
  const reference = `${registry === undefined ? '' : `${registry}/`}${source.name}:${key.slice(0, 12)}`;
  const present = await run(['docker', 'image', 'inspect', reference]).then(
    () => true,
    () => false,
  );
  if (!present)
    await run(['docker', 'build', '--file', source.dockerfile, '--tag', reference, source.context], { log });
  return reference;
}

/** The digest of an image in the registry that it was pushed to. */
export async function dockerDigest(reference: string): Promise<string> {
  const format = '{{range .RepoDigests}}{{println .}}{{end}}';
  const known = await run(['docker', 'image', 'inspect', '--format', format, reference]);
  const repository = reference.slice(0, reference.lastIndexOf(':'));
  const pushed = known.split('\n').find((line) => line.startsWith(`${repository}@`));
  if (pushed === undefined) throw new Error(`the engine knows no digest of ${reference}`);
  return pushed.slice(repository.length + 1);
}

/** Gives a built image its alias, too; returns the complete name of the alias. */
export async function dockerAlias({ name, alias }: ImageSource, reference: string): Promise<string[]> {
  if (alias === undefined) return [];
  await run(['docker', 'tag', reference, `${name}:${alias}`]);
  return [`${name}:${alias}`];
}
