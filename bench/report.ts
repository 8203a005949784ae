/** What a benchmark reports: rows for people, figures (with their unit in the name) for machines. */
export interface Report {
  readonly title: string;
  readonly rows: readonly Row[];
  readonly figures: Readonly<Record<string, number | string>>;
  readonly notes?: readonly string[];
}

/** One line of the table; every row of a report has the same columns. */
export type Row = Readonly<Record<string, number | string>>;

/** A file of this folder that `npm run bench -- NAME` can run. */
export interface Benchmark {
  /**
   * `kills`: for what kills, how often, and `capsules`: of how many it makes, where it is not to be the usual number;
   * `rest`: for how many seconds what it made is left alone;
   * `only`: the parts that are wanted; `cluster`: on the Space that is up, where there is such a form.
   */
  run(options: {
    readonly quick: boolean;
    readonly kills?: number;
    readonly cluster?: boolean;
    readonly capsules?: number;
    readonly rest?: number;
    readonly only?: readonly string[];
  }): Promise<Report>;
}

/** The value below which the share `q` (0 to 1) of the samples lies, by the nearest-rank rule. */
export function quantile(samples: readonly number[], q: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const value = sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)];
  if (value === undefined) throw new Error('quantile of no samples');
  return value;
}

/** Text columns left, numbers right, one space of air. */
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
  return Number.isInteger(value) ? String(value) : value.toPrecision(4).replace(/\.?0+$/, '');
}
