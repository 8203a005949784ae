import { Writable } from 'node:stream';
import { S3Error } from './errors.ts';
import {
  documentOf,
  elementsOf,
  textOf,
  type XmlElement,
  XmlError,
  type XmlNode,
  XmlReader,
  type XmlShape,
} from './xml.ts';

/** Runs a short piece of work in its turn, so that a document delays others for at most one piece. */
/** Runs a piece of work in its Capsule's turn, for which so many milliseconds were used before it. */
export type InTurn = <T>(act: () => T, owedMs?: number) => Promise<T>;

export const atOnce: InTurn = async (act) => act();

/** Bytes of a document that are parsed in one turn. */
const SLICE_BYTES = 4 * 1024;

/** Parses a document in slices, one in each turn. */
export async function readSlices(bytes: Uint8Array, reader: XmlReader, inTurn: InTurn): Promise<void> {
  for (let at = 0; at < bytes.length; at += SLICE_BYTES)
    await inTurn(() => reader.write(bytes.subarray(at, at + SLICE_BYTES)));
}

/** Items of a document that are processed in one turn, since each key may be long and completely escaped. */
const ITEMS_A_TURN = 10;

/** Runs a short piece of work for each item, a few in each turn. */
export async function mapInTurns<T, R>(
  all: readonly T[],
  act: (one: T) => R,
  inTurn: InTurn,
): Promise<readonly R[]> {
  const done: R[] = [];
  for (let at = 0; at < all.length; at += ITEMS_A_TURN)
    done.push(...(await inTurn(() => all.slice(at, at + ITEMS_A_TURN).map(act))));
  return done;
}

/** Writes a document from the elements that `written` makes of items. */
export async function documentInTurns<T>(
  name: string,
  items: readonly T[],
  written: (item: T) => XmlElement,
  { inTurn, first = [] }: { readonly inTurn: InTurn; readonly first?: readonly XmlElement[] },
): Promise<string> {
  const elements = await mapInTurns(items, (item) => elementsOf([written(item)]), inTurn);
  return inTurn(() => documentOf(name, elementsOf(first) + elements.join('')));
}

/** Collects an answer's body up to so many bytes; it fails at the first byte too many, which ends the request. */
export class Collector extends Writable {
  readonly #chunks: Buffer[] = [];
  #room: number;

  constructor(limit: number) {
    super();
    this.#room = limit;
  }

  /** Whether there were more bytes. */
  get isCut(): boolean {
    return this.#room < 0;
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error) => void): void {
    // Copied, since the sender frees the piece.
    if (this.#room > 0) this.#chunks.push(Buffer.from(chunk.subarray(0, this.#room)));
    this.#room -= chunk.length;
    done(this.isCut ? answerTooLarge() : undefined);
  }

  bytes(): Buffer {
    return Buffer.concat(this.#chunks);
  }
}

/** Parses an answer's document while it arrives. */
export class DocumentSink extends Writable {
  readonly #reader: XmlReader;
  readonly #inTurn: InTurn;
  #room: number;

  constructor(shape: XmlShape, limit: number, inTurn: InTurn) {
    super();
    this.#reader = new XmlReader({ ...shape, answer: true });
    this.#inTurn = inTurn;
    this.#room = limit;
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error) => void): void {
    this.#take(chunk, done);
  }

  /** Joins what has come meanwhile: a sender can make every byte a piece, and a turn takes longer than a byte. */
  override _writev(pieces: { readonly chunk: Buffer }[], done: (error?: Error) => void): void {
    this.#take(Buffer.concat(pieces.map(({ chunk }) => chunk)), done);
  }

  #take(bytes: Buffer, done: (error?: Error) => void): void {
    this.#room -= bytes.length;
    if (this.#room < 0) return void done(answerTooLarge());
    readSlices(bytes, this.#reader, this.#inTurn).then(
      () => done(),
      (error: Error) => done(judged(error)),
    );
  }

  /** @throws S3Error if a 200 contains an error, as copies and completions may, or another document */
  document(): XmlNode {
    let node: XmlNode;
    try {
      node = this.#reader.end();
    } catch (error) {
      throw judged(error);
    }
    if (this.#reader.isError) throw new S3Error('answered', 500, plainCode(textOf(node, 'Code')));
    return node;
  }
}

/** The code, if it has the form of S3's codes. */
export function plainCode(code: string | undefined): string {
  return /^[A-Za-z]{1,64}$/.test(code ?? '') ? String(code) : 'Unknown';
}

function judged(error: unknown): Error {
  if (error instanceof XmlError) return new S3Error('answered', 200, 'MalformedAnswer', { cause: error });
  return error instanceof Error ? error : new S3Error('answered', 200, 'Unknown', { cause: error });
}

function answerTooLarge(): S3Error {
  return new S3Error('answered', 0, ANSWER_TOO_LARGE);
}

export const ANSWER_TOO_LARGE = 'AnswerTooLarge';
