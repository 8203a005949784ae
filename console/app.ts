import type { Logger } from '@space/broker-kit';
import { traceIdOf } from '@space/broker-kit';
import express, { type ErrorRequestHandler, type Express, type Request, type Response } from 'express';
import { html } from './html/template.ts';
import { Url } from './html/url.ts';
import type { Assets } from './http/assets.ts';
import { errorBody, explain } from './http/errors.ts';
import { type Form, readForm } from './http/form.ts';
import { securityHeaders } from './http/headers.ts';
import type { Origins } from './http/origin.ts';
import { notFound, type Page, PageError, Redirect } from './http/outcome.ts';
import type { Caller, Kubernetes } from './kubernetes/client.ts';
import { alone, framed } from './pages/layout.ts';
import type { LiveStreams } from './pages/live-streams.ts';
import { isFormToken, type Session } from './session/session.ts';
import { isSessionOver, type SignIn } from './session/sign-in.ts';
import { type Route, type Section, type SpaceNames, type Visit, visit } from './visit.ts';

export interface AppOptions {
  readonly names: SpaceNames;
  readonly origins: Origins;
  readonly isSecure: boolean;
  readonly assets: Assets;
  readonly signIn: SignIn;
  readonly kubernetes: Kubernetes;
  readonly callerOf: (session: Session) => Caller;
  readonly routes: readonly Route[];
  /** How much there is to repair, for the sidebar; undefined where the person may not see it. */
  readonly countRepairs: (visit: Visit) => Promise<number | undefined>;
  readonly live: LiveStreams;
  readonly log: Logger;
}

const NO_FORM: Form = new Map();

/** The order of a request: headers, whether we were asked, who asks, whether our page sent it, the page itself. */
export function createApp(options: AppOptions): Express {
  const { origins, signIn, assets, live, log, names } = options;
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.set('query parser', false);
  app.set('strict routing', true);
  app.set('case sensitive routing', true);

  app.use(securityHeaders(options));
  app.get('/healthz', (_request, response) => void response.type('text/plain').send('ok'));
  app.use((request, response, next) => {
    if (origins.isOurs(request.headers)) return next();
    const error = new PageError(
      421,
      'This is not the address of the console',
      'Ask who runs it for its address.',
    );
    sendAlone(response, errorPage(error, traceId(response)));
  });
  for (const asset of Object.values(assets)) app.get(asset.url.text, asset.serve());

  const sendAlone = (response: Response, page: Page) =>
    void response
      .status(page.status ?? 200)
      .type('text/html')
      .send(alone({ ...page, assets }, names.space).toString());

  const sendFramed = async (response: Response, visited: Visit, under: Section, page: Page) => {
    // A page that says what went wrong is not to fail for want of a number beside it.
    const repairs = await options.countRepairs(visited).catch(() => undefined);
    const text = framed(visited, { ...page, under, repairs, assets }).toString();
    response
      .status(page.status ?? 200)
      .type('text/html')
      .send(text);
  };

  const errorPage = (error: PageError, id: string): Page => ({
    title: error.title,
    main: errorBody(error, id),
    status: error.status,
  });

  /** For whoever is not signed in, and for what fails before it is known who asks. */
  const outsideOf =
    (work: (request: Request, response: Response) => Promise<void>) =>
    async (request: Request, response: Response) => {
      try {
        await work(request, response);
      } catch (error) {
        const told = explain(error);
        logFailure(log, request, response, error, told);
        const page = errorPage(told, traceId(response));
        sendAlone(response, { ...page, main: html`<h1>${page.title}</h1>${page.main}` });
      }
    };

  const fromOurPage = (request: Request) => {
    if (!origins.isFromOurPage(request.headers)) throw foreignForm();
  };

  app.get(
    '/sign-in',
    outsideOf(async (request, response) => {
      sendAlone(response, await signIn.begin(response, queryOf(request).get('to') ?? undefined));
    }),
  );
  app.post(
    '/sign-in',
    outsideOf(async (request, response) => {
      fromOurPage(request);
      const taken = await signIn.take(request, response);
      if ('to' in taken) return redirect(response, taken.to);
      sendAlone(response, await signIn.begin(response, taken.wanted, taken.problem));
    }),
  );
  // A link, and not a form: browsers do not let a form of ours end at another host.
  app.get(
    '/sign-in/issuer',
    outsideOf(async (request, response) => {
      const to = queryOf(request).get('to') ?? undefined;
      const url = await signIn.sendAway(request, response, origins.of(request.headers) ?? '', to);
      response.status(303).set('location', url.href).end();
    }),
  );
  app.get(
    '/sign-in/issuer/answer',
    outsideOf(async (request, response) => {
      const taken = await signIn.comeBack(request, response, origins.of(request.headers) ?? '');
      if (!('to' in taken))
        return sendAlone(response, await signIn.begin(response, taken.wanted, taken.problem));
      // From another site's redirect a browser would come to the page without the session, which it sends for our own links alone.
      response.set('refresh', `0; url=${taken.to.text}`);
      sendAlone(response, signedIn(taken.to));
    }),
  );
  app.post(
    '/sign-out',
    outsideOf(async (request, response) => {
      fromOurPage(request);
      const session = await signIn.sessionOf(request);
      if (session !== undefined) {
        await checkedForm(request, session);
        signIn.leave(response, session);
      }
      redirect(response, Url.path`/sign-in`);
    }),
  );

  app.get(
    '/live',
    outsideOf(async (request, response) => live.serve(request, response, await signIn.sessionOf(request))),
  );

  for (const route of options.routes) {
    const handler = outsideOf(async (request, response) => {
      const session = await signIn.sessionOf(request);
      if (session === undefined) return redirect(response, Url.path`/sign-in?to=${request.path}`);
      if (route.method === 'POST') fromOurPage(request);
      const form = route.method === 'POST' ? await checkedForm(request, session) : NO_FORM;
      const visited = visit(options.kubernetes, options.callerOf(session), {
        session,
        names,
        form,
        params: paramsOf(request),
        query: queryOf(request),
      });
      try {
        const outcome = await route.run(visited);
        if (outcome instanceof Redirect) redirect(response, outcome.to);
        else await sendFramed(response, visited, route.under, outcome);
      } catch (error) {
        if (isSessionOver(error, session)) {
          signIn.leave(response, session);
          return redirect(response, Url.path`/sign-in?to=${request.path}`);
        }
        const told = explain(error);
        logFailure(log, request, response, error, told);
        await sendFramed(response, visited, route.under, errorPage(told, traceId(response)));
      }
    });
    if (route.method === 'GET') app.get(route.path, handler);
    else app.post(route.path, handler);
  }
  app.use(
    outsideOf(async () => {
      throw notFound();
    }),
  );
  // What the router itself refuses, such as an address that cannot be decoded; Express would show a stack.
  const lastResort: ErrorRequestHandler = (error, request, response, _next) => {
    if (response.headersSent) return void response.destroy();
    const isCallers = error instanceof URIError;
    return outsideOf(async () => {
      throw isCallers ? notFound() : error;
    })(request, response);
  };
  app.use(lastResort);
  return app;
}

const signedIn = (to: Url): Page => ({
  title: 'Signed in',
  main: html`<h1>Signed in</h1><p><a href="${to}">Go on</a></p>`,
});

async function checkedForm(request: Request, session: Session): Promise<Form> {
  const form = await readForm(request);
  if (!isFormToken(form.get('form_token'), session.formKey, request.path)) throw foreignForm();
  return form;
}

const foreignForm = () =>
  new PageError(
    403,
    'The form was not sent by a page of the console',
    'Open its page again and send it from there. Nothing was changed.',
  );

/** 303, so that no form is sent twice. */
function redirect(response: Response, to: Url): void {
  response.status(303).set('location', to.text).end();
}

const queryOf = (request: Request) => new URL(request.url, 'https://console.invalid').searchParams;

/** Express hands out what it decoded; a list is no name. */
const paramsOf = (request: Request): Record<string, string> =>
  Object.fromEntries(
    Object.entries(request.params).filter((pair): pair is [string, string] => typeof pair[1] === 'string'),
  );

function traceId(response: Response): string {
  const known: unknown = response.locals['traceId'];
  if (typeof known === 'string') return known;
  const made = traceIdOf(undefined);
  response.locals['traceId'] = made;
  return made;
}

/** Never what was sent, nor what the API server said: both may hold a value. */
function logFailure(
  log: Logger,
  request: Request,
  response: Response,
  error: unknown,
  told: PageError,
): void {
  const about = { trace_id: traceId(response), method: request.method, status: told.status, err: error };
  if (told.status >= 500) log.error(about, 'request failed');
  else log.info(about, 'request refused');
}
