/** Which words the sources have no more: refuses, by file, line and rule, each that docs/glossary.md has retired. */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { sourcesOf } from './imports/read.ts';
import { retiredOf, usesOf } from './words/retired.ts';

const ROOT = resolve(import.meta.dirname, '..');
const retired = retiredOf(readFileSync(resolve(ROOT, 'docs/glossary.md'), 'utf8'));
const uses = usesOf(sourcesOf(ROOT), retired);
for (const { file, line, word, instead } of uses)
  console.log(`${file}:${line}: the glossary has retired ${word}, and says instead: ${instead}`);
process.exitCode = uses.length === 0 ? 0 : 1;
