import { anyHeaderSchema, type Entry, entrySchema, FORMAT, headerSchema, type PointHeader } from './entry.ts';
import { BackupError, DamagedPointError } from './errors.ts';
import { pointName } from './point-names.ts';
import type { Bytes } from './sealer.ts';
import type { Vault } from './vault.ts';

/** A stored point: a header, and an entry for each object of the bucket. */
export interface Point {
  readonly name: string;
  readonly header: PointHeader;
}

/** Writes a point, completely or not at all. */
export async function writePoint(
  vault: Vault,
  header: PointHeader,
  entries: readonly Entry[],
  signal: AbortSignal,
): Promise<string> {
  const name = pointName(new Date(header.started));
  // The lines are produced twice, since their length is needed before they are sent and they do not fit in memory.
  let length = 0;
  for (const line of linesOf(header, entries)) length += line.length;
  await vault.write({ kind: 'points', name }, gathered(linesOf(header, entries)), length, signal);
  return name;
}

function* linesOf(header: PointHeader, entries: readonly Entry[]): Generator<Buffer> {
  for (const line of [header, ...entries]) yield Buffer.from(`${JSON.stringify(line)}\n`);
}

const GATHERED_BYTES = 64 * 1024;

/** Combines short lines into pieces of a suitable size for a request. */
async function* gathered(lines: Iterable<Buffer>): AsyncGenerator<Buffer> {
  let pieces: Buffer[] = [];
  let bytes = 0;
  for (const line of lines) {
    pieces.push(line);
    bytes += line.length;
    if (bytes < GATHERED_BYTES) continue;
    yield Buffer.concat(pieces);
    [pieces, bytes] = [[], 0];
  }
  if (bytes > 0) yield Buffer.concat(pieces);
}

/** Reads only the header of a point. */
export function readHeader(vault: Vault, name: string, space: string, signal: AbortSignal): Promise<Point> {
  return vault.read({ kind: 'points', name }, signal, async (bytes) => {
    for await (const line of textLines(name, bytes)) return { name, header: headerOf(line, name, space) };
    throw damaged(name);
  });
}

/** Reads a whole point. @throws BackupError if it is incomplete or another Space's */
export async function readPoint(
  vault: Vault,
  name: string,
  space: string,
  signal: AbortSignal,
): Promise<readonly Entry[]> {
  const entries: Entry[] = [];
  await visitEntries(vault, name, space, signal, (entry) => entries.push(entry));
  return entries;
}

/** The same, one entry after the other, so that not all are in memory. */
export function visitEntries(
  vault: Vault,
  name: string,
  space: string,
  signal: AbortSignal,
  visit: (entry: Entry) => unknown,
): Promise<void> {
  return vault.read({ kind: 'points', name }, signal, async (bytes) => {
    let header: PointHeader | undefined;
    let count = 0;
    for await (const line of textLines(name, bytes)) {
      if (header === undefined) {
        header = headerOf(line, name, space);
        continue;
      }
      const entry = entrySchema.safeParse(parsed(line, name));
      if (!entry.success) throw damaged(name, entry.error);
      count += 1;
      visit(entry.data);
    }
    if (header?.objects !== count) throw damaged(name);
  });
}

function headerOf(line: string, name: string, space: string): PointHeader {
  const any = anyHeaderSchema.safeParse(parsed(line, name));
  if (!any.success) throw damaged(name, any.error);
  if (any.data.format !== FORMAT)
    throw new BackupError(
      `the point ${name} has format ${any.data.format} and this program reads ${FORMAT}: take the release that made it`,
    );
  if (any.data.space !== space)
    throw new BackupError(
      `the point ${name} is of the Space "${any.data.space}" and not of "${space}": set BACKUP_S3_PREFIX and SPACE_NAME to those of one Space`,
    );
  const header = headerSchema.safeParse(any.data);
  // A point that was stored under another name would pass for another time.
  if (!header.success || pointName(new Date(header.data.started)) !== name) throw damaged(name);
  return header.data;
}

function parsed(line: string, name: string): unknown {
  try {
    return JSON.parse(line);
  } catch (error) {
    throw damaged(name, error);
  }
}

/** Each line without its line feed, which the last line must have, too. */
async function* textLines(name: string, bytes: Bytes): AsyncGenerator<string> {
  const text = new TextDecoder('utf-8', { fatal: true });
  let rest = '';
  try {
    for await (const piece of bytes) {
      const lines = (rest + text.decode(piece, { stream: true })).split('\n');
      rest = lines.pop() ?? '';
      yield* lines;
    }
  } catch (error) {
    throw damaged(name, error);
  }
  if (rest !== '') throw damaged(name);
}

function damaged(name: string, cause?: unknown): DamagedPointError {
  return new DamagedPointError(
    `the point ${name} is damaged or cut short: take another time, with --at, or remove it from the backup where it is the newest`,
    { cause },
  );
}
