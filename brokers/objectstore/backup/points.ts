import { anyHeaderSchema, type Entry, entrySchema, FORMAT, headerSchema, type PointHeader } from './entry.ts';
import { BackupError, damagedPoint } from './errors.ts';
import { gathered, textLines } from './lines.ts';
import { pointName } from './point-names.ts';
import type { Vault } from './vault.ts';

/** A stored point: a header, and an entry for each object of the bucket. */
export interface Point {
  readonly name: string;
  readonly header: PointHeader;
}

/** The bytes of a header with the spaces that fill it up, since it is written before its numbers are known. */
const HEADER_BYTES = 1024;

/**
 * Writes a point while its entries are found, completely or not at all. `finish` is called after the last of them and returns the
 * header.
 */
export async function writePoint(
  vault: Vault,
  name: string,
  entries: AsyncIterable<Entry>,
  finish: () => Promise<PointHeader>,
  signal: AbortSignal,
): Promise<void> {
  const point = {
    name,
    headerBytes: HEADER_BYTES,
    entries: gathered(entries),
    header: async () => headerLine(await finish()),
  };
  await vault.writePoint(point, signal);
}

function headerLine(header: PointHeader): Buffer {
  const text = JSON.stringify(header);
  return Buffer.from(`${text}${' '.repeat(HEADER_BYTES - 1 - Buffer.byteLength(text))}\n`);
}

/** Reads only the header of a point. */
export async function readHeader(
  vault: Vault,
  name: string,
  space: string,
  signal: AbortSignal,
): Promise<Point> {
  for await (const line of linesOf(vault, name, signal)) return { name, header: headerOf(line, name, space) };
  throw damagedPoint(name);
}

/**
 * The entries of a point, each read when it is needed.
 * @throws BackupError if it is another Space's, and DamagedPointError, at the latest after the last entry, if it is damaged
 */
export async function* entriesOf(
  vault: Vault,
  name: string,
  space: string,
  signal: AbortSignal,
): AsyncGenerator<Entry> {
  let header: PointHeader | undefined;
  let count = 0;
  for await (const line of linesOf(vault, name, signal)) {
    if (header === undefined) {
      header = headerOf(line, name, space);
      continue;
    }
    const entry = entrySchema.safeParse(parsed(line, name));
    if (!entry.success) throw damagedPoint(name, entry.error);
    count += 1;
    yield entry.data;
  }
  if (header?.objects !== count) throw damagedPoint(name);
}

function linesOf(vault: Vault, name: string, signal: AbortSignal): AsyncGenerator<string> {
  return textLines(vault.readPoint(name, signal), (cause) => damagedPoint(name, cause));
}

function headerOf(line: string, name: string, space: string): PointHeader {
  const any = anyHeaderSchema.safeParse(parsed(line, name));
  if (!any.success) throw damagedPoint(name, any.error);
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
  if (!header.success || pointName(new Date(header.data.started)) !== name) throw damagedPoint(name);
  return header.data;
}

function parsed(line: string, name: string): unknown {
  try {
    return JSON.parse(line);
  } catch (error) {
    throw damagedPoint(name, error);
  }
}
