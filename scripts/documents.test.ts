import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { expect, test } from 'vitest';

const ROOT = resolve(import.meta.dirname, '..');
const NOT_OURS = new Set(['node_modules', '.git', '.space', 'dist', 'coverage']);
const files = (pattern: string) =>
  globSync(pattern, { cwd: ROOT, exclude: (path) => NOT_OURS.has(basename(path)) });
const textOf = (file: string) => readFileSync(join(ROOT, file), 'utf8');

/** As GitHub names the headings of a page. */
const anchorsOf = (page: string) =>
  [...page.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\p{M}_\- ]/gu, '')
      .replaceAll(' ', '-'),
  );

test('every link of a page leads to a file of the repository, and to a heading of it', () => {
  const broken: string[] = [];
  for (const page of files('**/*.md')) {
    const prose = textOf(page).replaceAll(/^```.*?^```|`[^`\n]*`/gms, '');
    for (const [, target = '', anchor] of prose.matchAll(/\]\(([^)#\s]*)(?:#([^)\s]*))?\)/g)) {
      if (/^[a-z]+:/.test(target)) continue;
      const file = target === '' ? page : join(dirname(page), target);
      const there = existsSync(join(ROOT, file));
      if (there && (anchor === undefined || anchorsOf(textOf(file)).includes(anchor))) continue;
      broken.push(`${page}: ${target}${anchor === undefined ? '' : `#${anchor}`}`);
    }
  }
  expect(broken).toEqual([]);
});
