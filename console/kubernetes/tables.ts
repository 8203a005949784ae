import * as z from 'zod';
import type { Ask } from './client.ts';

/**
 * A line of a list as the API server prints it: of what `kubectl get -o wide` shows what pages show, and no manifest. There
 * are thousands of them in memory, so none holds more. A cell is empty where its kind has no such column.
 */
export interface Row {
  readonly name: string;
  /** When a Capsule was made. */
  readonly created: string;
  /** The condition Ready: its status, its reason and its message. */
  readonly ready: string;
  readonly reason: string;
  readonly why: string;
  /** Since when it is not Ready; empty of what is. */
  readonly since: string;
  /** An Assistant's Capsule, and the version that its manifest names. */
  readonly capsule: string;
  readonly version: string;
  /** How many Assistants a Capsule has, and how many of them are Ready. */
  readonly assistants: string;
  readonly running: string;
  readonly databaseUsed: string;
  readonly storageUsed: string;
}

/** All rows at one moment, which is where a watch goes on. */
export interface Table {
  readonly rows: readonly Row[];
  readonly columns: Columns;
  readonly version: string;
}

/** The place of each column. A watch tells them with its first event alone. */
export type Columns = ReadonlyMap<string, number>;

const answer = z.object({
  metadata: z
    .object({ continue: z.string().optional(), resourceVersion: z.string().default('') })
    .default({ resourceVersion: '' }),
  columnDefinitions: z.array(z.object({ name: z.string() })).nullish(),
  rows: z
    .array(
      z.object({
        cells: z.array(z.unknown()),
        /** Of a watch alone. */
        object: z.object({ metadata: z.object({ resourceVersion: z.string().default('') }) }).nullish(),
      }),
    )
    .nullish(),
});

export const TABLE = 'application/json;as=Table;v=v1;g=meta.k8s.io';
/** Small, for each page is in memory three times while it is read. */
const PAGE = '200';
/** A Space of more than these is looked at with other tools. */
const MOST_PAGES = 100;

export async function readTable(ask: (ask: Ask) => Promise<unknown>, path: string): Promise<Table> {
  const rows: Row[] = [];
  const texts = new Map<string, string>();
  let columns: Columns = new Map();
  let token = '';
  let version = '';
  for (let page = 0; page < MOST_PAGES; page += 1) {
    // A row without its object's metadata, whose record of who wrote which field is ten times as long as the row.
    const query = { limit: PAGE, includeObject: 'None', ...(token === '' ? {} : { continue: token }) };
    const part = tableOf(await ask({ path, query, accept: TABLE }), columns, texts);
    columns = part.columns;
    // Each page is of the first one's moment.
    version = part.version;
    rows.push(...part.rows);
    token = part.token;
    if (token === '') break;
  }
  return { rows, columns, version };
}

/**
 * One page, or the object of one event of a watch. Columns are those that were told before, where it has none. Most cells say
 * what others say: of thousands of rows each of `texts` is kept once.
 */
export function tableOf(
  value: unknown,
  known: Columns,
  texts: Map<string, string> = new Map(),
): Table & { readonly token: string } {
  const { metadata, columnDefinitions, rows } = answer.parse(value);
  const columns =
    columnDefinitions == null || columnDefinitions.length === 0
      ? known
      : new Map(columnDefinitions.map(({ name }, place) => [name, place] as const));
  const last = rows?.at(-1)?.object?.metadata.resourceVersion ?? '';
  const once = (cell: unknown) => {
    const text = textOf(cell);
    const before = texts.get(text);
    if (before === undefined) texts.set(text, text);
    return before ?? text;
  };
  return {
    rows: (rows ?? []).map(({ cells }) => rowOf((column) => once(cells[columns.get(column) ?? -1]))),
    columns,
    version: metadata.resourceVersion === '' ? last : metadata.resourceVersion,
    token: metadata.continue ?? '',
  };
}

function rowOf(cell: (column: string) => string): Row {
  return {
    name: cell('Name'),
    created: cell('Created'),
    ready: cell('Ready'),
    reason: cell('Reason'),
    why: cell('Why'),
    since: cell('Ready') === 'True' ? '' : cell('Since'),
    capsule: cell('Capsule'),
    version: cell('Version'),
    assistants: cell('Assistants'),
    running: cell('Running'),
    databaseUsed: cell('Database Used'),
    storageUsed: cell('Storage Used'),
  };
}

const textOf = (cell: unknown) => (typeof cell === 'string' || typeof cell === 'number' ? String(cell) : '');
