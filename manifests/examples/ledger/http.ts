import type { IncomingMessage, ServerResponse } from 'node:http';

/** An error answer, with a message by which the caller can correct the request. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly status: number;
  readonly code: string;
  readonly details: object;

  constructor(status: number, code: string, message: string, details: object = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.details = details;
  }
}

export interface Reply {
  readonly status: number;
  readonly body: object;
}

const LONGEST_BODY = 64 * 1024;

export async function readJson(request: IncomingMessage): Promise<unknown> {
  const type = request.headers['content-type'];
  if (type !== undefined && !/^application\/json\s*(;|$)/i.test(type)) {
    throw new Refusal(415, 'unsupported_media_type', 'the body must be application/json');
  }
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > LONGEST_BODY)
      throw new Refusal(413, 'too_large', `the body is longer than ${LONGEST_BODY} bytes`);
    chunks.push(chunk);
  }
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks)));
  } catch {
    throw new Refusal(400, 'invalid_json', 'the body is not JSON in UTF-8');
  }
}

/** People read this in a terminal, so it is indented. */
export function send(response: ServerResponse, { status, body }: Reply): void {
  const text = `${JSON.stringify(body, null, 2)}\n`;
  response.writeHead(status, {
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(text),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  });
  response.end(text);
}

export const replyOf = ({ status, code, message, details }: Refusal): Reply => ({
  status,
  body: { error: { code, message, ...details } },
});
