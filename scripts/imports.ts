/**
 * Who may import whom: refuses, by file, line and rule, what the table of rooms in docs/architecture.md forbids, and
 * every circle of files or of folders beyond the known ones, which it names.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileCircles, folderCircles } from './imports/circles.ts';
import { judge } from './imports/known.ts';
import { exportedBy, importsOf, sourcesOf } from './imports/read.ts';
import { forbidden, roomsOf } from './imports/rooms.ts';

const ROOT = resolve(import.meta.dirname, '..');
const exported = exportedBy(ROOT);
const imports = [...sourcesOf(ROOT)].flatMap(([file, text]) => importsOf(file, text, exported));
const rooms = roomsOf(readFileSync(resolve(ROOT, 'docs/architecture.md'), 'utf8'));

const refused = forbidden(imports, rooms);
for (const { file, line, rule } of refused) console.log(`${file}:${line}: ${rule}`);

const verdicts = [judge('files', fileCircles(imports)), judge('folders', folderCircles(imports))];
for (const line of verdicts.flatMap(({ lines }) => lines)) console.log(line);
process.exitCode = refused.length === 0 && verdicts.every(({ passed }) => passed) ? 0 : 1;
