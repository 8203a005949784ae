import type { IncomingMessage, RequestListener } from 'node:http';
import { createServer } from 'node:https';
import { portOf } from '@space/broker-kit';

/** A request as an upstream got it. */
interface Seen {
  readonly method: string;
  readonly url: string;
  readonly rawHeaders: readonly string[];
  readonly body: string;
}

/** A TLS server on loopback that remembers what it was asked. */
export interface TestUpstream {
  readonly port: number;
  readonly seen: Seen[];
  /** Connections that were opened so far. */
  readonly connections: () => number;
  /** Those of them that are open now. */
  readonly open: () => number;
  /** Answers from now on; the default says `ok`. */
  answer: RequestListener;
  close(): Promise<void>;
}

export async function startUpstream(tls: {
  cert: string;
  key: string;
  maxVersion?: 'TLSv1.1' | 'TLSv1.2';
}): Promise<TestUpstream> {
  let connections = 0;
  let open = 0;
  const ok: RequestListener = (_, response) => response.end('ok');
  const upstream = { answer: ok };
  const seen: Seen[] = [];
  // It does not end a connection that the gateway keeps, however long a busy machine takes to use it again.
  const server = createServer(
    { ...tls, minVersion: 'TLSv1', keepAliveTimeout: 10 * 60_000 },
    (request, response) => {
      // The body is read before the answer, unless the answer reads it.
      void remember(request).then((one) => {
        seen.push(one);
        upstream.answer(request, response);
      });
    },
  );
  server.on('connection', (socket) => {
    connections += 1;
    open += 1;
    socket.once('close', () => {
      open -= 1;
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return Object.assign(upstream, {
    port: portOf(server),
    seen,
    connections: () => connections,
    open: () => open,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  });
}

async function remember(request: IncomingMessage): Promise<Seen> {
  let body = '';
  for await (const chunk of request) body += chunk;
  return { method: request.method ?? '', url: request.url ?? '', rawHeaders: request.rawHeaders, body };
}
