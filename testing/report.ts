import { cpus, loadavg, totalmem } from 'node:os';

/** The report of a benchmark or soak: rows for people, and figures (with their unit in the name) for programs. */
export interface Report {
  readonly title: string;
  readonly rows: readonly Row[];
  readonly figures: Readonly<Record<string, number | string>>;
  readonly notes?: readonly string[];
  /** Limits that were missed, each as a text; the exit code shows that there are some. */
  readonly missed?: readonly string[];
}

/** One line of the table; every row of a report has the same columns. */
export type Row = Readonly<Record<string, number | string>>;

/** The value below which the share `q` (0 to 1) of the samples lies, by the nearest-rank rule. */
export function quantile(samples: readonly number[], q: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const value = sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)];
  if (value === undefined) throw new Error('quantile of no samples');
  return value;
}

/** Formats a table with text aligned left, numbers right, and two spaces between columns. */
export function renderTable(rows: readonly Row[]): string {
  const columns = Object.keys(rows[0] ?? {});
  const cells = rows.map((row) => columns.map((column) => format(row[column])));
  const widths = columns.map((column, i) =>
    Math.max(column.length, ...cells.map((row) => (row[i] ?? '').length)),
  );
  const numeric = columns.map((column) => rows.every((row) => typeof row[column] === 'number'));
  const line = (texts: readonly string[]) =>
    texts
      .map((text, i) => (numeric[i] ? text.padStart(widths[i] ?? 0) : text.padEnd(widths[i] ?? 0)))
      .join('  ')
      .trimEnd();
  return [line(columns), line(widths.map((width) => '─'.repeat(width))), ...cells.map(line)].join('\n');
}

function format(value: number | string | undefined): string {
  if (typeof value !== 'number') return value ?? '';
  return String(Number.isInteger(value) ? value : Number(value.toPrecision(4)));
}

/** Prints the table for people, then one JSON line for programs, which begins with what was run. */
export function printReport(
  { title, rows, notes = [], missed = [], figures }: Report,
  ran: Readonly<Record<string, unknown>>,
  ms: number,
): void {
  const seconds = Math.round(ms / 100) / 10;
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown processor'}, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.version}`;
  console.log(`\n${title}\n${machine}, load ${loadavg()[0]?.toFixed(1)}, ${seconds} s\n`);
  console.log(renderTable(rows));
  for (const note of notes) console.log(`\n${note}`);
  for (const limit of missed) console.log(`\nMISSED  ${limit}`);
  console.log(`\n${JSON.stringify({ ...ran, seconds, ...figures })}`);
}
