/**
 * `npm run generate` writes every generated file; with `--check` it writes nothing and fails when one is stale.
 * A room that generates files exports them as `Generated` and is listed here.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { generated as contracts } from '../brokers/contracts/documents/generated.ts';
import { generated as objectPlane } from '../brokers/objectstore/api/json/openapi.ts';
import { generatedFiles as manifests } from '../manifests/derive/generate.ts';
import { generated as configuration } from './configuration.ts';
import { generated as schemas } from './schemas.ts';

/** A file made from another source: its path from the repository's root, and what it must hold. */
export interface Generated {
  readonly path: string;
  readonly text: string;
}

const sources: readonly (() => readonly Generated[])[] = [
  manifests,
  contracts,
  objectPlane,
  configuration,
  schemas,
];

const checking = process.argv.includes('--check');
const stale: string[] = [];
for (const { path, text } of sources.flatMap((source) => source())) {
  const current = await readFile(path, 'utf8').catch(() => undefined);
  if (current === text) continue;
  stale.push(path);
  if (checking) continue;
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
}
for (const path of stale) console.log(checking ? `stale: ${path} (npm run generate)` : `wrote ${path}`);
if (checking && stale.length > 0) process.exitCode = 1;
