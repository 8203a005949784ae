import { ServiceError } from '@space/broker-kit';
import { objectHeaders } from '../../objects/object-headers.ts';
import type { ObjectCall } from '../../objects/types.ts';
import { readSlices } from '../../upstream/sinks.ts';
import {
  type XmlElement,
  XmlError,
  type XmlNode,
  XmlReader,
  type XmlShape,
  xmlDocument,
} from '../../upstream/xml.ts';
import type { Admission } from '../admission.ts';
import { type Exchange, type Received, writeHead } from '../exchange.ts';
import { type S3Body, s3Body } from './body.ts';
import { S3Refusal } from './errors.ts';
import type { S3Match, S3Operation } from './routes.ts';
import type { Verified } from './signature.ts';

/** The prefix of S3 clients' own metadata headers. */
export const METADATA = 'x-amz-meta-';

/** An admitted request, with what its operation reads and how it answers. */
export interface Admitted extends S3Match {
  readonly exchange: Exchange;
  readonly call: ObjectCall;
  readonly headers: Received;
  readonly verified: Verified;
}

/** Handlers for some of S3's operations. */
export type Handlers<Name extends S3Operation> = Readonly<
  Record<Name, (admitted: Admitted) => Promise<void>>
>;

export function bodyOf({ exchange, headers, verified, call }: Admitted): S3Body {
  return s3Body(exchange.request, headers, verified, call);
}

/** The object's own headers: `aws-chunked` is the coding of the message and not of the object. */
export function ownHeaders(headers: Received): Record<string, string> {
  const encoding = headers.get('content-encoding');
  if (encoding === undefined) return objectHeaders(headers, METADATA);
  const own = encoding
    .split(',')
    .map((coding) => coding.trim())
    .filter((coding) => coding !== '' && coding.toLowerCase() !== 'aws-chunked');
  const changed = new Map(headers);
  if (own.length === 0) changed.delete('content-encoding');
  else changed.set('content-encoding', own.join(','));
  return objectHeaders(changed, METADATA);
}

/**
 * The XML in a request's body, of at most `limit` bytes. It is parsed while it arrives, and reading stops at the first
 * violation.
 */
export async function document(
  admission: Admission,
  admitted: Admitted,
  shape: XmlShape,
  limit: number,
): Promise<XmlNode> {
  const body = bodyOf(admitted);
  if (body.length > limit) throw new ServiceError('too_large', 'body over the limit');
  const { done, inTurn } = await admission.document(admitted.exchange, body.length);
  const reader = new XmlReader(shape);
  try {
    for await (const chunk of body.stream as AsyncIterable<Buffer>) await readSlices(chunk, reader, inTurn);
    return await inTurn(() => reader.end());
  } catch (error) {
    if (error instanceof XmlError) throw malformed();
    throw error;
  } finally {
    done();
  }
}

export function malformed(): S3Refusal {
  return new S3Refusal(
    'invalid_request',
    { status: 400, code: 'MalformedXML' },
    'not the document of this operation',
  );
}

export function answer(admitted: Admitted, root: string, content: readonly XmlElement[]): void {
  xml(admitted, xmlDocument(root, content));
}

/**
 * Answers long work as S3 does: after a while with the headers of a successful answer, then with white space while it
 * continues, then with its result or an error.
 */
export async function answerAlive(
  { signOfLifeMs }: Admission,
  admitted: Admitted,
  root: string,
  work: Promise<readonly XmlElement[]>,
): Promise<void> {
  const { exchange } = admitted;
  const timer = setInterval(() => {
    if (exchange.response.destroyed || exchange.response.writableNeedDrain) return;
    if (exchange.alive) exchange.response.write(' ');
    else writeHead(exchange, 200, { 'content-type': 'application/xml' }).write(DECLARATION);
    exchange.alive = true;
  }, signOfLifeMs);
  try {
    const content = await work;
    if (!exchange.alive) answer(admitted, root, content);
    else exchange.response.end(withoutDeclaration(xmlDocument(root, content)));
  } finally {
    clearInterval(timer);
  }
}

/** The result document of a copy. */
export function copied({ etag, modified }: { readonly etag: string; readonly modified: string }) {
  return [['LastModified', modified] as const, ['ETag', etag] as const];
}

const DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n';

/** The rest of a document whose declaration was sent earlier. */
export function withoutDeclaration(document: string): string {
  return document.startsWith(DECLARATION) ? document.slice(DECLARATION.length) : document;
}

export function xml({ exchange }: Admitted, body: string): void {
  const about = { 'content-type': 'application/xml', 'content-length': Buffer.byteLength(body) };
  writeHead(exchange, 200, about).end(body);
}
