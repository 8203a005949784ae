import type { Bytes } from './sealer.ts';

const GATHERED_BYTES = 64 * 1024;

/** Values as lines of JSON, in pieces of a suitable size. */
export async function* gathered(values: AsyncIterable<object>): AsyncGenerator<Buffer> {
  let pieces: Buffer[] = [];
  let bytes = 0;
  for await (const value of values) {
    const line = Buffer.from(`${JSON.stringify(value)}\n`);
    pieces.push(line);
    bytes += line.length;
    if (bytes < GATHERED_BYTES) continue;
    yield Buffer.concat(pieces);
    [pieces, bytes] = [[], 0];
  }
  if (bytes > 0) yield Buffer.concat(pieces);
}

/** Each line without its line feed, which the last line must have, too; `wrong` makes the error where it has none, or for no text. */
export async function* textLines(bytes: Bytes, wrong: (cause?: unknown) => Error): AsyncGenerator<string> {
  const text = new TextDecoder('utf-8', { fatal: true });
  let rest = '';
  for await (const piece of bytes) {
    const lines = (rest + decoded(text, piece, wrong)).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
  if (rest !== '') throw wrong();
}

function decoded(text: TextDecoder, piece: Uint8Array, wrong: (cause?: unknown) => Error): string {
  try {
    return text.decode(piece, { stream: true });
  } catch (error) {
    throw wrong(error);
  }
}
