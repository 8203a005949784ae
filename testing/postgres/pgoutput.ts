/** Parses messages of PostgreSQL's logical decoding (pgoutput, protocol 1) about rows, and messages of transactions. */

/** A row as in the server's log, with every value as text. */
export type LoggedRow = Readonly<Record<string, string | null>>;

interface RowChange {
  /** The name without its schema. */
  readonly table: string;
  readonly before?: LoggedRow;
  readonly after?: LoggedRow;
}

/** One committed transaction with its changes, in their order. */
export interface Transaction {
  /** The time of the commit by the server's clock, in milliseconds since 1970. */
  readonly at: number;
  readonly changes: readonly RowChange[];
  /** Messages of `pg_logical_emit_message`, by which a test marks its own changes of rows. */
  readonly notes: readonly string[];
}

interface Relation {
  readonly table: string;
  readonly columns: readonly string[];
}

/** Milliseconds from 1970 to PostgreSQL's epoch. */
const EPOCH_MS = 946_684_800_000;

class Reader {
  readonly #bytes: Buffer;
  #at = 0;
  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }
  skip(bytes: number): void {
    this.#at += bytes;
  }
  byte(): string {
    this.#at += 1;
    return String.fromCharCode(this.#bytes[this.#at - 1] ?? 0);
  }
  int16(): number {
    this.#at += 2;
    return this.#bytes.readInt16BE(this.#at - 2);
  }
  int32(): number {
    this.#at += 4;
    return this.#bytes.readInt32BE(this.#at - 4);
  }
  int64(): bigint {
    this.#at += 8;
    return this.#bytes.readBigInt64BE(this.#at - 8);
  }
  text(bytes: number): string {
    this.#at += bytes;
    return this.#bytes.toString('utf8', this.#at - bytes, this.#at);
  }
  /** Reads up to the terminating zero. */
  string(): string {
    const text = this.text(this.#bytes.indexOf(0, this.#at) - this.#at);
    this.skip(1);
    return text;
  }
}

export function parsePgoutput(messages: readonly Buffer[]): Transaction[] {
  const relations = new Map<number, Relation>();
  const transactions: Transaction[] = [];
  let [at, changes, notes]: [number, RowChange[], string[]] = [0, [], []];
  for (const bytes of messages) {
    const reader = new Reader(bytes);
    const kind = reader.byte();
    if (kind === 'B') {
      reader.skip(8);
      [at, changes, notes] = [Number(reader.int64()) / 1000 + EPOCH_MS, [], []];
    } else if (kind === 'C') transactions.push({ at, changes, notes });
    else if (kind === 'R') addRelation(reader, relations);
    else if (kind === 'I' || kind === 'U' || kind === 'D') changes.push(readChange(reader, relations));
    else if (kind === 'M') {
      reader.skip(9);
      notes.push(`${reader.string()} ${reader.text(reader.int32())}`);
    }
  }
  return transactions;
}

function addRelation(reader: Reader, relations: Map<number, Relation>): void {
  const id = reader.int32();
  reader.string();
  const table = reader.string();
  reader.skip(1);
  const columns = Array.from({ length: reader.int16() }, () => {
    reader.skip(1);
    const name = reader.string();
    reader.skip(8);
    return name;
  });
  relations.set(id, { table, columns });
}

/** `K` or `O` precedes the old row, `N` the new one. */
function readChange(reader: Reader, relations: ReadonlyMap<number, Relation>): RowChange {
  const relation = relations.get(reader.int32());
  if (relation === undefined) throw new Error('a row of a table that was not described');
  const first = reader.byte();
  if (first === 'N') return { table: relation.table, after: readRow(reader, relation) };
  const before = readRow(reader, relation);
  // A deletion has no new row.
  return reader.byte() === 'N'
    ? { table: relation.table, before, after: withKept(readRow(reader, relation), before) }
    : { table: relation.table, before };
}

/** Marks a long value that an update did not change, which the new row does not contain. */
const KEPT = '\0kept';

function withKept(row: LoggedRow, before: LoggedRow): LoggedRow {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, value === KEPT ? (before[name] ?? null) : value]),
  );
}

function readRow(reader: Reader, { columns }: Relation): LoggedRow {
  const count = reader.int16();
  const values = Array.from({ length: count }, () => {
    const kind = reader.byte();
    if (kind === 'n') return null;
    return kind === 'u' ? KEPT : reader.text(reader.int32());
  });
  return Object.fromEntries(columns.map((name, at) => [name, values[at] ?? null]));
}
