import { S3Error } from './errors.ts';
import { ANSWER_TOO_LARGE, atOnce, type InTurn } from './sinks.ts';
import type { Ask, Transport } from './transport.ts';
import type { Headers } from './types.ts';
import { textOf, type XmlNode } from './xml.ts';

/** Answers that are documents, and what they have in common. */

/** The most bytes of a document without items. */
const FIELDS_LIMIT = 64 * 1024;
/** The most bytes of an item: a key of 1,024 bytes, each of them escaped, and what else is told of it. */
const ITEM_LIMIT = 7 * 1024;
/** The most bytes of a whole list. A page that is longer is asked for again in halves; at 1 KiB an item it never is. */
const LISTING_LIMIT = 2 * 1024 * 1024;

/** Asks for a document of a few fields. */
export function fields(transport: Transport, ask: Ask, root: string): Promise<XmlNode> {
  return transport.document(ask, {
    shape: { root, items: [], most: 0 },
    limit: FIELDS_LIMIT,
    inTurn: atOnce,
  });
}

/** A document that lists items: it has no more of them than were asked for, and no more bytes than these can have. */
export function listing(
  transport: Transport,
  ask: Ask,
  shape: { readonly root: string; readonly items: readonly string[]; readonly most: number },
  inTurn: InTurn = atOnce,
): Promise<XmlNode> {
  return transport.document(ask, {
    shape,
    limit: Math.min(LISTING_LIMIT, FIELDS_LIMIT + shape.most * ITEM_LIMIT),
    inTurn,
  });
}

/** Asks again for half as many items where the answer would be too large. */
export async function inHalves<T>(limit: number, ask: (limit: number) => Promise<T>): Promise<T> {
  try {
    return await ask(limit);
  } catch (error) {
    const fewer = Math.floor(limit / 2);
    // So few items always fit: an answer that is too large all the same is full of something else.
    if (!(error instanceof S3Error && error.code === ANSWER_TOO_LARGE) || limit * ITEM_LIMIT < LISTING_LIMIT)
      throw error;
    return inHalves(fewer, ask);
  }
}

/** The token by which a list goes on; undefined where it ends. @throws S3Error when it goes on and does not say where */
export function nextOf(answer: XmlNode, name: string): string | undefined {
  if (textOf(answer, 'IsTruncated') !== 'true') return undefined;
  const next = textOf(answer, name);
  if (next === undefined || next === '') throw noNextToken();
  return next;
}

export function noNextToken(): S3Error {
  return new S3Error('answered', 200, 'NoNextToken');
}

/** The entity tag of what was stored. @throws S3Error when the server does not say it */
export function stored(etag: string | undefined): string {
  if (etag === undefined || etag === '') throw new S3Error('answered', 200, 'NoETag');
  return etag;
}

export function copied(answer: XmlNode): { readonly etag: string; readonly modified: string } {
  return { etag: stored(textOf(answer, 'ETag')), modified: textOf(answer, 'LastModified') ?? '' };
}

/** Names the object that is copied. */
export function withSource(headers: Headers, source: string): Headers {
  return { ...headers, 'x-amz-copy-source': source };
}
