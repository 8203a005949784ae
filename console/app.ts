import type { Logger } from '@space/broker-kit';
import express, { type ErrorRequestHandler, type Express, type RequestHandler } from 'express';
import { Answers } from './answers.ts';
import type { CallsOf } from './gateway/calls.ts';
import type { Assets } from './http/assets.ts';
import { securityHeaders } from './http/headers.ts';
import type { Origins } from './http/origin.ts';
import { notFound, PageError } from './http/outcome.ts';
import { Turns } from './http/turns.ts';
import type { Caller, Kubernetes } from './kubernetes/client.ts';
import type { KeptLists } from './kubernetes/kept-lists.ts';
import type { MachineryOf } from './machinery/machinery.ts';
import { servePage } from './page-routes.ts';
import type { LiveStreams } from './pages/live-streams.ts';
import type { KeptForms } from './session/kept-forms.ts';
import type { Session } from './session/session.ts';
import type { SignIn } from './session/sign-in.ts';
import { serveSignIn } from './sign-in-routes.ts';
import type { Route, SetsOf, SpaceNames, Visit } from './visit.ts';

export interface AppOptions {
  readonly names: SpaceNames;
  readonly origins: Origins;
  readonly isSecure: boolean;
  readonly assets: Assets;
  readonly signIn: SignIn;
  readonly kept: KeptForms;
  readonly kubernetes: Kubernetes;
  readonly lists: KeptLists;
  readonly callerOf: (session: Session) => Caller;
  readonly routes: readonly Route[];
  /** The number of repairs for the sidebar; undefined if the person may not see it. */
  readonly countRepairs: (visit: Visit) => Promise<number | undefined>;
  readonly live: LiveStreams;
  readonly callsOf: CallsOf | undefined;
  readonly setsOf: SetsOf | undefined;
  readonly machineryOf: MachineryOf;
  readonly now: () => Date;
  /** The longest that a request waits for its turn, if not as long as usual. */
  readonly turnMs?: number | undefined;
  readonly log: Logger;
}

/**
 * The order of a request: headers, check of our own host name, session, check that our page sent the form, the page
 * itself.
 */
export function createApp(options: AppOptions): Express {
  const { origins, signIn, assets, live } = options;
  const answers = new Answers(options);
  const paged = { ...options, turns: new Turns({ waitMs: options.turnMs }) };
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.set('query parser', false);
  app.set('strict routing', true);
  app.set('case sensitive routing', true);

  app.use(securityHeaders(options));
  app.get('/healthz', (_request, response) => void response.type('text/plain').send('ok'));
  app.use(onlyAskedByName(origins, answers));
  for (const asset of Object.values(assets)) app.get(asset.url.text, asset.serve());
  serveSignIn(app, options, answers);
  app.get(
    '/live',
    answers.outside(async (request, response) =>
      live.serve(request, response, await signIn.sessionOf(request)),
    ),
  );
  for (const route of options.routes) {
    const handler = answers.outside((request, response) =>
      servePage(paged, answers, route, { request, response }),
    );
    if (route.method === 'GET') app.get(route.path, handler);
    else app.post(route.path, handler);
  }
  app.use(
    answers.outside(async () => {
      throw notFound();
    }),
  );
  app.use(lastResort(answers));
  return app;
}

function onlyAskedByName(origins: Origins, answers: Answers): RequestHandler {
  const refuse = answers.outside(async () => {
    throw new PageError(
      421,
      'This is not the address of the console',
      'Ask your administrator for its address. A port-forward is reached at https://localhost:8443; other addresses have to be named in console.origins of the chart.',
    );
  });
  return (request, response, next) => (origins.isOurs(request.headers) ? next() : refuse(request, response));
}

/** Handles errors of the router itself, such as an address that cannot be decoded; Express would show a stack trace. */
function lastResort(answers: Answers): ErrorRequestHandler {
  return (error, request, response, _next) => {
    if (response.headersSent) return void response.destroy();
    const isCallers = error instanceof URIError;
    return answers.outside(async () => {
      throw isCallers ? notFound() : error;
    })(request, response);
  };
}
