import { globSync, readFileSync } from 'node:fs';
import { basename, dirname, join, posix } from 'node:path';

/** One import of one of our files by another, by value or by type; paths are from the repository's root. */
export interface Import {
  readonly file: string;
  readonly line: number;
  readonly target: string;
  /** Gone before it runs: `import type`. */
  readonly isType: boolean;
}

/** What a workspace's name stands for: the file of each thing that it exports, by what is written to import it. */
export type Exported = ReadonlyMap<string, string>;

const NOT_OURS = new Set(['node_modules', '.git', '.space', 'dist', 'coverage']);

/** `import … from 'x'`, `export … from 'x'`, `import 'x'` and `import('x')`, as the formatter leaves them. */
const IMPORT = /(?:^(?:import|export)\b[^;']*?\bfrom |^import |\bimport\()'([^'\n]+)'/gm;

/** The files of ours that a text imports; packages of others are left out. */
export function importsOf(file: string, text: string, exported: Exported): Import[] {
  const imports: Import[] = [];
  for (const match of text.matchAll(IMPORT)) {
    const [whole, wanted = ''] = match;
    const target = wanted.startsWith('.') ? posix.join(posix.dirname(file), wanted) : exported.get(wanted);
    if (target === undefined) continue;
    const line = text.slice(0, match.index + whole.length).split('\n').length;
    imports.push({ file, line, target, isType: /^(import|export) type\b/.test(whole) });
  }
  return imports;
}

export function sourcesOf(root: string): Map<string, string> {
  const files = globSync('**/*.ts', { cwd: root, exclude: (path) => NOT_OURS.has(basename(path)) });
  return new Map(files.sort().map((file) => [file, readFileSync(join(root, file), 'utf8')]));
}

interface Manifest {
  readonly name?: string;
  readonly workspaces?: readonly string[];
  readonly exports?: Readonly<Record<string, string>>;
}

const manifestOf = (path: string): Manifest => JSON.parse(readFileSync(path, 'utf8'));

export function exportedBy(root: string): Exported {
  const exported = new Map<string, string>();
  for (const workspace of manifestOf(join(root, 'package.json')).workspaces ?? []) {
    const path = join(root, workspace, 'package.json');
    const { name = dirname(path), exports = {} } = manifestOf(path);
    for (const [key, file] of Object.entries(exports))
      exported.set(posix.join(name, key), posix.join(workspace, file));
  }
  return exported;
}
