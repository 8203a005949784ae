import { S3Error } from './errors.ts';
import { ANSWER_TOO_LARGE, atOnce, type InTurn } from './sinks.ts';
import type { Ask, Transport } from './transport.ts';
import type { Headers } from './types.ts';
import { textOf, type XmlNode } from './xml.ts';

/** Requests that are answered with documents, and their limits. */

/** The most bytes of a document without items. */
const FIELDS_LIMIT = 64 * 1024;
/** The most bytes of an item: a key of 1,024 escaped bytes, and its other fields. */
const ITEM_LIMIT = 7 * 1024;
/** The most bytes of a list. A longer page is requested again in halves, which is never necessary at 1 KiB per item. */
const LISTING_LIMIT = 2 * 1024 * 1024;

/** Requests a document with a few fields. */
export function fields(transport: Transport, ask: Ask, root: string): Promise<XmlNode> {
  return transport.document(ask, {
    shape: { root, items: [], most: 0 },
    limit: FIELDS_LIMIT,
    inTurn: atOnce,
  });
}

/**
 * Requests a document with a list, which may have no more items than requested, and no more bytes than these can have.
 */
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

/** Requests half as many items if the answer would be too large. */
export async function inHalves<T>(limit: number, ask: (limit: number) => Promise<T>): Promise<T> {
  try {
    return await ask(limit);
  } catch (error) {
    const fewer = Math.floor(limit / 2);
    // So few items always fit, so an answer that is still too large contains something else.
    if (!(error instanceof S3Error && error.code === ANSWER_TOO_LARGE) || limit * ITEM_LIMIT < LISTING_LIMIT)
      throw error;
    return inHalves(fewer, ask);
  }
}

/** The token for the next page; undefined at the end. @throws S3Error if there is a next page without a token */
export function nextOf(answer: XmlNode, name: string): string | undefined {
  if (textOf(answer, 'IsTruncated') !== 'true') return undefined;
  const next = textOf(answer, name);
  if (next === undefined || next === '') throw noNextToken();
  return next;
}

export function noNextToken(): S3Error {
  return new S3Error('answered', 200, 'NoNextToken');
}

/** The entity tag of the stored object. @throws S3Error if the answer has none */
export function stored(etag: string | undefined): string {
  if (etag === undefined || etag === '') throw new S3Error('answered', 200, 'NoETag');
  return etag;
}

/** The bytes of a listed object or part, which some servers leave out if there are none. @throws S3Error for what is no size */
export function sizeOf(item: XmlNode): number {
  const size = textOf(item, 'Size') ?? '0';
  if (!/^[0-9]{1,15}$/.test(size)) throw new S3Error('answered', 200, 'MalformedAnswer');
  return Number(size);
}

export function copied(answer: XmlNode): { readonly etag: string; readonly modified: string } {
  return { etag: stored(textOf(answer, 'ETag')), modified: textOf(answer, 'LastModified') ?? '' };
}

/** Adds the source of a copy. */
export function withSource(headers: Headers, source: string): Headers {
  return { ...headers, 'x-amz-copy-source': source };
}
