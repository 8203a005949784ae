import { NEVER } from '@space/manifests';
import * as z from 'zod';
import type { Ask } from './client.ts';

/**
 * A row of a list as the API server prints it: those columns of `kubectl get -o wide` that pages show, and no manifest.
 * Thousands of rows are in memory, so each is small. A cell is empty if its kind has no such column.
 */
export interface Row {
  readonly name: string;
  /** When a Capsule was created. */
  readonly created: string;
  /** Status, reason and message of the condition Ready. */
  readonly ready: string;
  readonly reason: string;
  readonly why: string;
  /** Since when it is not Ready; empty if it is Ready, or no operator has looked at it yet. */
  readonly since: string;
  /** The Capsule of an Assistant, and the version in its manifest. */
  readonly capsule: string;
  readonly version: string;
  /** The number of a Capsule's Assistants, and of those that are Ready. */
  readonly assistants: string;
  readonly assistantsReady: string;
  readonly databaseUsed: string;
  readonly storageUsed: string;
}

/** The rows of a list, or as many of them as are read. */
export interface Rows {
  readonly rows: readonly Row[];
  /** Whether the list has more. */
  readonly isCut: boolean;
}

/** All rows in one resource version, from which a watch continues. */
export interface Table extends Rows {
  readonly columns: Columns;
  readonly version: string;
}

/** The index of each column. A watch sends columns only with its first event. */
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
        /** Only in events of a watch. */
        object: z.object({ metadata: z.object({ resourceVersion: z.string().default('') }) }).nullish(),
      }),
    )
    .nullish(),
});

export const TABLE = 'application/json;as=Table;v=v1;g=meta.k8s.io';
/** Small, since each page is in memory three times while it is read. */
const PAGE = 200;
/** The most rows that are read of a list. A Space with more needs other tools. */
export const MOST_ROWS = 20_000;

export async function readTable(
  ask: (ask: Ask) => Promise<unknown>,
  path: string,
  most = MOST_ROWS,
): Promise<Table> {
  const rows: Row[] = [];
  const texts = new Map<string, string>();
  let columns: Columns = new Map();
  let token = '';
  let version = '';
  for (let read = 0; read < most; read += PAGE) {
    // Without the object's metadata, whose managed fields are ten times as long as the row.
    const query = {
      limit: String(PAGE),
      includeObject: 'None',
      ...(token === '' ? {} : { continue: token }),
    };
    const part = tableOf(await ask({ path, query, accept: TABLE }), columns, texts);
    columns = part.columns;
    // Each further page has the version of the first one.
    version = part.version;
    rows.push(...part.rows);
    token = part.token;
    if (token === '') break;
  }
  return { rows, isCut: token !== '', columns, version };
}

/**
 * The rows of one page, or of one event of a watch. Without columns of its own, it has those of before. Since most
 * cells repeat others, each text is kept once, in `texts`.
 */
export function tableOf(
  value: unknown,
  known: Columns,
  texts: Map<string, string> = new Map(),
): Omit<Table, 'isCut'> & { readonly token: string } {
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
    since: cell('Ready') === 'True' || cell('Since') === NEVER ? '' : cell('Since'),
    capsule: cell('Capsule'),
    version: cell('Version'),
    assistants: cell('Assistants'),
    assistantsReady: cell('Assistants Ready'),
    databaseUsed: cell('Database Used'),
    storageUsed: cell('Storage Used'),
  };
}

const textOf = (cell: unknown) => (typeof cell === 'string' || typeof cell === 'number' ? String(cell) : '');
