import * as z from 'zod';
import type { Ask } from './client.ts';

/** A list as the API server prints it: the cells that `kubectl get -o wide` shows, and no manifest. */
export interface Row {
  readonly name: string;
  readonly cells: ReadonlyMap<string, string>;
}

const answer = z.object({
  metadata: z.object({ continue: z.string().optional() }).optional(),
  columnDefinitions: z.array(z.object({ name: z.string() })).optional(),
  rows: z
    .array(
      z.object({
        cells: z.array(z.unknown()),
        object: z.object({ metadata: z.object({ name: z.string() }) }),
      }),
    )
    .nullish(),
});

const TABLE = 'application/json;as=Table;v=v1;g=meta.k8s.io';
const PAGE = '500';
/** A Space of more than these is looked at with other tools. */
const MOST_PAGES = 40;

export async function listTable(ask: (ask: Ask) => Promise<unknown>, path: string): Promise<readonly Row[]> {
  const rows: Row[] = [];
  let names: readonly string[] = [];
  let token = '';
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const query: Record<string, string> = token === '' ? { limit: PAGE } : { limit: PAGE, continue: token };
    const part = answer.parse(await ask({ path, query, accept: TABLE }));
    names = part.columnDefinitions?.map(({ name }) => name) ?? names;
    for (const { cells, object } of part.rows ?? []) {
      const pairs = names.map((name, index) => [name, textOf(cells[index])] as const);
      rows.push({ name: object.metadata.name, cells: new Map(pairs) });
    }
    token = part.metadata?.continue ?? '';
    if (token === '') break;
  }
  return rows;
}

const textOf = (cell: unknown) => (typeof cell === 'string' || typeof cell === 'number' ? String(cell) : '');
