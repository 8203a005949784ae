/**
 * Checks imports between rooms: reports, by file, line and rule, what the table in docs/architecture.md forbids, and
 * every cycle of files or folders.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { closing, fileCircles, folderCircles } from './imports/circles.ts';
import { exportedBy, importsOf, sourcesOf } from './imports/read.ts';
import { forbidden, roomsOf } from './imports/rooms.ts';

const ROOT = resolve(import.meta.dirname, '..');
const exported = exportedBy(ROOT);
const imports = [...sourcesOf(ROOT)].flatMap(([file, text]) => importsOf(file, text, exported));
const rooms = roomsOf(readFileSync(resolve(ROOT, 'docs/architecture.md'), 'utf8'));

const refused = [
  ...forbidden(imports, rooms).map(({ file, line, rule }) => `${file}:${line}: ${rule}`),
  ...closing('files', fileCircles(imports)),
  ...closing('folders', folderCircles(imports)),
];
for (const line of refused) console.log(line);
process.exitCode = refused.length === 0 ? 0 : 1;
