/** The result of a run, as text for a person and as a signed document. */
import { createPublicKey, generateKeyPairSync, type KeyObject, sign, verify } from 'node:crypto';
import type { Cell } from './matrix.ts';

export interface Check {
  readonly name: string;
  readonly holds: boolean;
  readonly found: string;
}

export interface Report {
  readonly space: string;
  readonly started: string;
  readonly seconds: number;
  readonly versions: Readonly<Record<string, string>>;
  /** The images of the Space's pods by digest, as the runtimes report them, by container. */
  readonly images: Readonly<Record<string, string>>;
  readonly cells: readonly Cell[];
  readonly checks: readonly Check[];
  /** Pods that were asked and did not answer, and why. A run with such pods proves nothing. */
  readonly unanswered: readonly string[];
  /** What was not tested, and why. */
  readonly notes: readonly string[];
}

interface Signed {
  readonly report: Report;
  readonly signature: {
    readonly algorithm: 'ed25519';
    readonly over: string;
    readonly publicKey: string;
    /**
     * The key was created for this report alone: it shows that the report was not changed since, but not who made it.
     */
    readonly ephemeral: boolean;
    readonly value: string;
  };
}

const bytes = (report: Report) => Buffer.from(JSON.stringify(report));

export function signReport(report: Report, key?: KeyObject): Signed {
  const by = key ?? generateKeyPairSync('ed25519').privateKey;
  if (by.asymmetricKeyType !== 'ed25519') throw new Error('reports are signed with an Ed25519 key');
  return {
    report,
    signature: {
      algorithm: 'ed25519',
      over: 'the value of "report" as JSON without white space',
      publicKey: createPublicKey(by).export({ type: 'spki', format: 'pem' }).toString(),
      ephemeral: key === undefined,
      value: sign(null, bytes(report), by).toString('base64'),
    },
  };
}

/** Whether the report is unchanged since it was signed, by this key if one is given. */
export function isAsSigned({ report, signature }: Signed, by?: KeyObject): boolean {
  const key = by ?? createPublicKey(signature.publicKey);
  return verify(null, bytes(report), key, Buffer.from(signature.value, 'base64'));
}

const gone = ({ agrees, seen }: Cell) => !agrees && seen === 'unasked';

/** Groups cells without an answer by the pod that did not answer. */
function silent(cells: readonly Cell[]): string[] {
  const sources = [...new Set(cells.filter(gone).map(({ from }) => from))];
  return sources.map((source) => {
    const missing = cells.filter((cell) => cell.from === source && gone(cell)).length;
    return `${source}: gave no result for ${missing} targets`;
  });
}

export const failures = ({
  cells,
  checks,
  unanswered,
}: Pick<Report, 'cells' | 'checks' | 'unanswered'>): string[] => [
  ...(cells.some(({ expected, seen }) => expected !== 'theirs' && seen !== 'unasked')
    ? []
    : ['nothing was measured']),
  ...unanswered.map((note) => `no answer from ${note}`),
  ...silent(cells),
  ...cells
    .filter((cell) => !cell.agrees && !gone(cell))
    .map(
      ({ from, target, expected, seen }) => `${from} -> ${target}: expected ${expected}, observed ${seen}`,
    ),
  ...checks.filter(({ holds }) => !holds).map(({ name, found }) => `${name}: ${found}`),
];

const wasAsked = ({ seen }: Cell) => seen !== 'unasked' && seen !== 'unable';

/** Returns the mark of the most informative of several cells. */
function mark(cells: readonly Cell[]): string {
  if (cells.length === 0) return '';
  if (cells.some(({ agrees }) => !agrees)) return '!';
  const asked = cells.filter(wasAsked);
  if (asked.length === 0) return '?';
  if (asked.some(({ expected }) => expected === 'open')) return 'o';
  return asked.every(({ expected }) => expected === 'theirs') ? '-' : '.';
}

const LEGEND =
  'o open where it should be, and otherwise closed · . closed · - not decided by the Space · ! not as expected · ? not tested';

/** A line for each pod that tried, a column for each target; then the differences by name. */
export function textOf(report: Report): string {
  const columns = [...new Set(report.cells.map(({ to }) => to))];
  const rows = [...new Set(report.cells.map(({ from }) => from))];
  const width = Math.max(...rows.map((row) => row.length), 4);
  const lines = rows.map((row) => {
    const marks = columns.map((column) =>
      mark(report.cells.filter(({ from, to }) => from === row && to === column)).padEnd(column.length),
    );
    return `${row.padEnd(width)}  ${marks.join('  ')}`.trimEnd();
  });
  const asked = report.cells.filter((cell) => wasAsked(cell) && cell.expected !== 'theirs');
  const unable = report.cells.filter(({ seen }) => seen === 'unable');
  const wrong = failures(report);
  const closed = asked.filter(({ expected }) => expected === 'closed');
  return [
    `${'from'.padEnd(width)}  ${columns.join('  ')}`,
    ...lines,
    LEGEND,
    '',
    ...report.checks.map(({ name, holds, found }) => `${holds ? 'ok    ' : 'FAILED'}  ${name}: ${found}`),
    '',
    ...report.notes.map((note) => `not tested: ${note}`),
    `${asked.length} cells measured, ${asked.filter(({ agrees }) => agrees).length} as expected; another pod reached the target of ${closed.filter(({ witnessed }) => witnessed).length} of the ${closed.length} closed ones`,
    ...(unable.length === 0
      ? []
      : [`${unable.length} more could not be tested, because the runtime offers no socket for the protocol`]),
    ...(wrong.length === 0
      ? [`every connection and every check is as expected (${report.seconds} s)`]
      : ['not as expected:', ...wrong.map((line) => `  ${line}`)]),
  ].join('\n');
}
