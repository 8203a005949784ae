import type { Import } from './read.ts';

/** A row of the table of rooms: a folder, and the rooms that it may import beside itself. */
export interface Room {
  readonly folder: string;
  readonly mayImport: readonly string[] | 'anything';
}

export interface Finding {
  readonly file: string;
  readonly line: number;
  readonly rule: string;
}

const CODE = /`([^`]+)`/g;
const quoted = (cell: string) => [...cell.matchAll(CODE)].map(([, folder = '']) => folder.replace(/\/$/, ''));

/** Reads the table under the heading `## Rooms` of docs/architecture.md. */
export function roomsOf(page: string): Room[] {
  const [, section = ''] = page.split(/^## Rooms$/m);
  const rows = (section.split(/^## /m)[0] ?? '').split('\n').filter((row) => row.startsWith('| `'));
  const rooms = rows.flatMap((row) => {
    const [, folders = '', , last = ''] = row.split('|').map((cell) => cell.trim());
    const mayImport: Room['mayImport'] = last === 'anything' ? last : quoted(last);
    if (mayImport.length === 0 && last !== 'none of our folders' && last !== '–')
      throw new Error(`the row of ${folders} does not say what it may import: ${last}`);
    return quoted(folders).map((folder) => ({ folder, mayImport }));
  });
  if (rooms.length === 0) throw new Error('the section "Rooms" has no table');
  return rooms;
}

const isWithin = (file: string, folder: string) => file.startsWith(`${folder}/`);

/** Tests and what only they and developers use: it may import every room, and nothing else may import it. */
export const isForTests = (file: string) =>
  /\.test\.ts$|(^|\/)testing\/|^e2e\/suites\/|(^|\/)dev\.ts$|^vitest\.config\.ts$/.test(file);

/** The imports that the table forbids. */
export function forbidden(imports: readonly Import[], rooms: readonly Room[]): Finding[] {
  const byDepth = rooms.toSorted((a, b) => b.folder.length - a.folder.length);
  const roomOf = (file: string) => byDepth.find(({ folder }) => isWithin(file, folder));
  return imports.flatMap(({ file, line, target }) => {
    if (isForTests(file)) return [];
    const [from, to] = [roomOf(file), roomOf(target)];
    const refused = (rule: string) => [{ file, line, rule }];
    if (from === undefined) return refused('no row of the table of rooms has this file');
    if (from.mayImport === 'anything') return [];
    if (isForTests(target)) return refused(`only tests may import ${target}`);
    if (to === undefined) return refused(`no row of the table of rooms has ${target}`);
    if (from === to || from.mayImport.includes(to.folder)) return [];
    return refused(`${from.folder}/ may not import ${to.folder}/ (${target})`);
  });
}
