import type { IncomingMessage } from 'node:http';
import { ServiceError } from './errors.ts';
import { GrowingBytes } from './growing-bytes.ts';
import { type JsonLimits, parseStrictJson, StrictJsonError } from './json.ts';
import { free } from './own-memory.ts';

const JSON_TYPE = /^application\/json[ \t]*(?:;[ \t]*charset[ \t]*=[ \t]*(?:utf-8|"utf-8")[ \t]*)?$/i;

/** Throws unless the headers announce a JSON body of at most `limit` bytes; reads no body. */
export function checkBodyHead(request: IncomingMessage, limit: number): void {
  if (!JSON_TYPE.test(request.headers['content-type'] ?? '')) {
    throw new ServiceError('unsupported_media_type', 'not application/json');
  }
  const encoding = request.headers['content-encoding'];
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw new ServiceError('unsupported_media_type', 'encoded body');
  }
  if (Number(request.headers['content-length'] ?? 0) > limit) throw tooLarge();
}

export interface ReadJsonOptions {
  readonly limits?: JsonLimits;
  /** Runs the parser in turn with others; without it, the parser runs at once. */
  readonly inTurn?: <T>(parse: () => T) => Promise<T>;
}

/** The request's body as one JSON object. */
export async function readJsonObject(
  request: IncomingMessage,
  limit: number,
  { limits, inTurn = async (act) => act() }: ReadJsonOptions = {},
): Promise<Readonly<Record<string, unknown>>> {
  const body = await readBytes(request, limit);
  const value = await inTurn(() => parse(body.bytes(), limits)).finally(() => body.free());
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ServiceError('invalid_request', 'not a JSON object');
  }
  return value as Record<string, unknown>;
}

function parse(bytes: Buffer, limits: JsonLimits | undefined): unknown {
  try {
    return parseStrictJson(bytes, limits);
  } catch (error) {
    if (error instanceof StrictJsonError) throw new ServiceError('invalid_request', error.message);
    throw error;
  }
}

function readBytes(request: IncomingMessage, limit: number): Promise<GrowingBytes> {
  return new Promise((resolve, reject) => {
    const body = new GrowingBytes(limit);
    const settle = (end: () => void) => {
      request.off('data', onData).off('end', onEnd).off('error', onLost).off('close', onLost);
      // A late error of an abandoned body must not crash the process.
      request.on('error', () => undefined);
      end();
    };
    const onData = (chunk: Buffer) => {
      if (body.append(chunk)) return void free(chunk);
      request.pause();
      fail(tooLarge());
    };
    const fail = (error: ServiceError) => {
      body.free();
      settle(() => reject(error));
    };
    const onEnd = () => settle(() => resolve(body));
    const onLost = () => fail(new ServiceError('invalid_request', 'body cut short'));
    request.on('data', onData).on('end', onEnd).on('error', onLost).on('close', onLost);
  });
}

function tooLarge(): ServiceError {
  return new ServiceError('too_large', 'body over the limit');
}
