import { readFileSync } from 'node:fs';

/** One client of the table in `docs/wire/objectstore-data.md`. */
export interface TableRow {
  readonly client: string;
  readonly version: string;
  readonly cases: number;
}

const PAGE = new URL('../../../docs/wire/objectstore-data.md', import.meta.url);
const ROW = /^\| ([^|]+?) \| ([0-9][^|]*?) \| (\d+) \|/gm;

/** Reads the table of the page. */
export function tableOfPage(): readonly TableRow[] {
  const [, section = ''] = readFileSync(PAGE, 'utf8').split('### Clients\n');
  return [...section.matchAll(ROW)].map(([, client = '', version = '', cases = '']) => ({
    client,
    version,
    cases: Number(cases),
  }));
}
