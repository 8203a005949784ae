import { createServer } from 'node:http';
import { portOf } from '@space/broker-kit';
import express from 'express';
import { ROUTE_HEADER } from './pipeline.ts';
import { POLICY_ROUTES, routeOf, SELECTOR } from './policy.ts';

/** Routers that Node's programs have behind its HTTP parser, in the order of their answers. */
export const NODE_ROUTERS = ['Node, URL', 'Node, URL decoded', 'Express'] as const;

/** A Node server on loopback that returns, in one header, the route that each of its routers would choose. */
export async function startNodeRouters(): Promise<{ readonly port: number; close(): Promise<void> }> {
  const app = express();
  app.set('query parser', 'extended');
  for (const { method, path } of POLICY_ROUTES) {
    const pattern = path
      .split('/')
      .map((segment, at) => (segment === '*' ? `:p${at}` : segment))
      .join('/');
    app[method.toLowerCase() as 'get'](pattern, (request, response) => {
      const kinds = [request.query[SELECTOR]].flat().map(String);
      answer(request, response, routeOf(method, path, kinds));
    });
  }
  app.use((request, response) => answer(request, response, -1));
  const answer = (request: express.Request, response: express.Response, routed: number) => {
    const routes = [byUrl(request, (path) => path), byUrl(request, decodeURIComponent), routed];
    response.writeHead(204, { [ROUTE_HEADER]: routes.join(' ') }).end();
  };
  // What a router throws at, it refuses.
  app.use(((_error, _request, response, _next) => {
    response.writeHead(204, { [ROUTE_HEADER]: '-1 -1 -1' }).end();
  }) satisfies express.ErrorRequestHandler);
  const server = createServer(app);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: portOf(server),
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

const PATTERNS = POLICY_ROUTES.map(({ path }) => ({
  path,
  pattern: new RegExp(`^${path.replaceAll('*', '[^/]+')}$`),
}));

/** Routes as programs without a framework do: by the WHATWG URL's path, raw or decoded as a whole, and its parameters. */
function byUrl({ method, originalUrl }: express.Request, read: (path: string) => string): number {
  const url = new URL(originalUrl, 'http://api.bank.org');
  const found = read(url.pathname);
  const path = PATTERNS.find(({ pattern }) => pattern.test(found))?.path;
  return routeOf(method, path, url.searchParams.getAll(SELECTOR));
}
