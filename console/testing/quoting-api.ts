import { readFileSync } from 'node:fs';
import { createSecureServer, type Http2ServerRequest, type Http2ServerResponse } from 'node:http2';
import { text } from 'node:stream/consumers';
import { manifest } from '../../operator/testing/manifest.ts';
import type { Canaries } from './canaries.ts';
import { input } from './subjects.ts';

/** What becomes of a stored input's Secret. An API server quotes what it does not take, and here that is the value. */
export const STORES = ['made', 'replaced', 'invalid', 'failed', 'nonsense', 'hung up', 'not bound'] as const;
export type Store = (typeof STORES)[number];

/** An API server that lets everybody do everything, has one Capsule and one Assistant, and quotes what it is sent. */
export interface QuotingApi {
  readonly url: string;
  store: Store;
  /** How often it was sent a stored input. */
  sent: number;
  close(): void;
}

const BOOKMARK = JSON.stringify({ type: 'BOOKMARK', object: { metadata: { resourceVersion: '2' } } });
/** A list with nothing in it, as a table and as objects. */
const EMPTY = { metadata: { resourceVersion: '1' }, columnDefinitions: [], rows: [], items: [] };
const ASSISTANT = {
  metadata: { name: 'post', uid: '0e7a3d0c-0000-4000-8000-000000000001', resourceVersion: '1' },
  spec: { capsule: 'household', manifest: manifest('post', { stored_inputs: { bank: input() } }) },
};

const objectsOf = ({ principal }: Canaries): Readonly<Record<string, unknown>> => ({
  tokenreviews: { status: { authenticated: true, user: { username: 'mia' } } },
  selfsubjectaccessreviews: { status: { allowed: true } },
  'capsule-household-objectstore': { data: { principal: Buffer.from(principal).toString('base64') } },
  household: { metadata: { name: 'household' } },
  post: ASSISTANT,
  events: { items: [] },
});

/** It serves HTTP/2 if requested, and keeps watches open, as the API server does. */
export async function startQuotingApi(
  files: { readonly cert: string; readonly key: string },
  canaries: Canaries,
): Promise<QuotingApi> {
  const objects = objectsOf(canaries);
  const secure = { cert: readFileSync(files.cert), key: readFileSync(files.key), allowHTTP1: true };
  const server = createSecureServer(secure, (asked, response) => void answer(asked, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  const api: QuotingApi = {
    url: `https://localhost:${port}`,
    store: 'made',
    sent: 0,
    close: () => server.close(),
  };

  async function answer(asked: Http2ServerRequest, response: Http2ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(asked.url, api.url);
    const reply = (json: unknown, status = 200) => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(json));
    };
    const sent = await text(asked);
    const refuse = (status: number, reason: string) =>
      reply({ reason, message: `${reason}: ${sent}` }, status);
    if (searchParams.get('watch') === 'true') return void response.writeHead(200).write(`${BOOKMARK}\n`);
    if (pathname.startsWith('/api/v1/namespaces/home/secrets')) {
      if (sent.includes(Buffer.from(canaries.input).toString('base64'))) api.sent += 1;
      if (api.store === 'replaced' && asked.method === 'POST') return refuse(409, 'AlreadyExists');
      if (api.store === 'invalid') return refuse(422, 'Invalid');
      if (api.store === 'failed') return refuse(500, 'InternalError');
      if (api.store === 'nonsense') return void response.writeHead(200).end(sent);
      if (api.store === 'hung up') return void (response.stream ?? response.socket).destroy();
      return reply({});
    }
    const isBinding = asked.method === 'PATCH' && pathname.endsWith('/assistants/post');
    if (isBinding && api.store === 'not bound') return refuse(409, 'Conflict');
    reply(objects[pathname.split('/').at(-1) ?? ''] ?? EMPTY);
  }
  return api;
}
