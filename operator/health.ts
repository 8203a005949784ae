import { createServer, type Server } from 'node:http';
import type { Registry } from 'prom-client';

export interface HealthView {
  live(): boolean;
  ready(): boolean;
}

/** `/healthz`: the process can answer. `/readyz`: the stores are filled, so that it works or can take over at once. */
export function serveHealth(port: number, view: HealthView, host?: string): Promise<Server> {
  return listen(port, host, (path) => {
    if (path === '/healthz')
      return view.live() ? { status: 200, text: 'ok\n' } : { status: 503, text: 'not live\n' };
    if (path === '/readyz')
      return view.ready() ? { status: 200, text: 'ok\n' } : { status: 503, text: 'not ready\n' };
    return { status: 404, text: 'not found\n' };
  });
}

export function serveMetrics(port: number, registry: Registry, host?: string): Promise<Server> {
  return listen(port, host, async (path) =>
    path === '/metrics'
      ? { status: 200, text: await registry.metrics(), type: registry.contentType }
      : { status: 404, text: 'not found\n' },
  );
}

interface Answer {
  readonly status: number;
  readonly text: string;
  readonly type?: string;
}

async function listen(
  port: number,
  host: string | undefined,
  answer: (path: string) => Answer | Promise<Answer>,
): Promise<Server> {
  const server = createServer(async (request, response) => {
    const {
      status,
      text,
      type = 'text/plain; charset=utf-8',
    } = await answer(request.url?.split('?')[0] ?? '/');
    response.writeHead(status, { 'content-type': type });
    response.end(request.method === 'HEAD' ? undefined : text);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port, host }, resolve);
  });
  return server;
}
