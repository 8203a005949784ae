import { request as ask, createServer, type IncomingMessage, type Server } from 'node:http';
import { portOf } from '@space/broker-kit';
import type { S3Server } from '../../../testing/s3.ts';

/** What becomes of an answer of the S3 server on its way to the broker. */
export type Fate =
  | 'pass'
  | 'lost'
  | { readonly status: number; readonly code: string }
  | { readonly success: string }
  /** As it is, but with this entity tag. */
  | { readonly tag: string }
  /** As if it had been stored with this entity tag. */
  | { readonly etag: string }
  | { readonly head: Readonly<Record<string, string>> };

/** A proxy between a broker and its S3 server, which has completed a request before its answer is changed. */
export interface Between {
  readonly endpoint: string;
  /** Called with a request before the server receives it. */
  begun: (request: IncomingMessage) => void;
  /** Decides when the server has answered; may take its time. */
  fate: (request: IncomingMessage, status: number) => Fate | Promise<Fate>;
  close(): Promise<void>;
}

export async function startBetween(s3: S3Server): Promise<Between> {
  const to = new URL(s3.endpoint);
  const server: Server = createServer((request, response) => {
    between.begun(request);
    const { method, url, headers } = request;
    const onward = ask({ hostname: to.hostname, port: to.port, method, path: url, headers, agent: false });
    onward.on('error', () => response.destroy());
    onward.on('response', (answer) => {
      const chunks: Buffer[] = [];
      answer.on('data', (chunk: Buffer) => chunks.push(chunk));
      answer.on('end', async () => {
        const fate = await between.fate(request, answer.statusCode ?? 500);
        if (fate === 'lost') response.destroy();
        else if (fate === 'pass')
          response.writeHead(answer.statusCode ?? 500, answer.headers).end(Buffer.concat(chunks));
        else if ('tag' in fate)
          response
            .writeHead(answer.statusCode ?? 500, { ...answer.headers, etag: fate.tag })
            .end(Buffer.concat(chunks));
        else if ('success' in fate)
          response.writeHead(200, { 'content-length': fate.success.length }).end(fate.success);
        else if ('head' in fate) response.writeHead(200, fate.head).end();
        else if ('etag' in fate) response.writeHead(200, { 'content-length': 0, etag: fate.etag }).end();
        else {
          const error = `<?xml version="1.0"?><Error><Code>${fate.code}</Code></Error>`;
          response.writeHead(fate.status, { 'content-length': error.length }).end(error);
        }
      });
    });
    request.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const between: Between = {
    endpoint: `http://127.0.0.1:${portOf(server)}`,
    begun: () => undefined,
    fate: () => 'pass',
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return between;
}
