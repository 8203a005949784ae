import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { Problem } from '../core/problem.ts';
import type { Line } from './record.ts';

/** What Content-Length promises, 0 without one. */
export const announcedLength = (request: IncomingMessage): number =>
  Number(request.headers['content-length'] ?? 0);

const hasBody = (request: IncomingMessage): boolean =>
  request.headers['transfer-encoding'] !== undefined || announcedLength(request) > 0;

/** The body as it flows, or null; counted, and broken off at the limit. */
export function bodyOf(request: IncomingMessage, limit: number, line: Line): Readable | null {
  return hasBody(request) ? Readable.from(counted(request, limit, line), { objectMode: false }) : null;
}

async function* counted(request: IncomingMessage, limit: number, line: Line): AsyncGenerator<Buffer> {
  for await (const chunk of request as AsyncIterable<Buffer>) {
    line.bytesOut += chunk.length;
    if (line.bytesOut > limit) throw new Problem('too_large');
    yield chunk;
  }
}

/** The whole body, whose length must be known before. @throws Problem `length_required`, `too_large` */
export async function readBody(request: IncomingMessage, limit: number): Promise<Buffer> {
  if (request.headers['transfer-encoding'] !== undefined) throw new Problem('length_required');
  if (announcedLength(request) > limit) throw new Problem('too_large');
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  if (!request.complete) throw new Problem('invalid_request');
  return Buffer.concat(chunks);
}
