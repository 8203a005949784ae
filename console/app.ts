import type { Logger } from '@space/broker-kit';
import { traceIdOf } from '@space/broker-kit';
import express, { type ErrorRequestHandler, type Express, type Request, type Response } from 'express';
import type { CallsOf } from './gateway/calls.ts';
import { html } from './html/template.ts';
import { Url } from './html/url.ts';
import { paramsOf, queryOf } from './http/asked.ts';
import type { Assets } from './http/assets.ts';
import { sendDownload } from './http/download.ts';
import { errorBody, explain } from './http/errors.ts';
import { type Form, readForm } from './http/form.ts';
import { securityHeaders } from './http/headers.ts';
import type { Origins } from './http/origin.ts';
import { Download, notFound, type Page, PageError, Redirect } from './http/outcome.ts';
import type { Caller, Kubernetes } from './kubernetes/client.ts';
import type { KeptLists } from './kubernetes/kept-lists.ts';
import { alone, framed } from './pages/layout.ts';
import type { LiveStreams } from './pages/live-streams.ts';
import { checkedForm, foreignForm } from './session/checked-form.ts';
import type { KeptForms } from './session/kept-forms.ts';
import { pageOfAct, returnPath } from './session/return-path.ts';
import type { Session } from './session/session.ts';
import { isSessionOver, type SignIn } from './session/sign-in.ts';
import { type Route, type Section, type SpaceNames, type Visit, visit } from './visit.ts';

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
  /** How much there is to repair, for the sidebar; undefined where the person may not see it. */
  readonly countRepairs: (visit: Visit) => Promise<number | undefined>;
  readonly live: LiveStreams;
  readonly callsOf: CallsOf | undefined;
  readonly log: Logger;
}

const SESSION_ENDED =
  'Your session has ended, and nothing was changed. What you entered is there again once you have signed in, but for secrets.';

/** The order of a request: headers, whether we were asked, who asks, whether our page sent it, the page itself. */
export function createApp(options: AppOptions): Express {
  const { origins, signIn, kept, assets, live, log, names } = options;
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

  const sendFramed = async (
    response: Response,
    visited: Visit,
    place: { readonly under: Section; readonly isStill: boolean },
    page: Page,
  ) => {
    // A page that says what went wrong is not to fail for want of a number beside it.
    const repairs = await options.countRepairs(visited).catch(() => undefined);
    const text = framed(visited, { ...page, ...place, repairs, assets }).toString();
    response
      .status(page.status ?? 200)
      .type('text/html')
      .send(text);
  };

  const errorPage = (error: PageError, id: string, back?: Url): Page => ({
    title: error.title,
    main: errorBody(error, id, back),
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
        options.lists.forget(session);
        signIn.leave(response, session);
      }
      redirect(response, Url.path`/sign-in`);
    }),
  );

  /** For somebody whose session ended while they filled in a form. */
  const interrupted = async (request: Request, response: Response, form: Form) => {
    const page = pageOfAct(request.path);
    await kept.keep(response, page, form);
    sendAlone(response, await signIn.begin(response, page.text, SESSION_ENDED));
  };

  app.get(
    '/live',
    outsideOf(async (request, response) => live.serve(request, response, await signIn.sessionOf(request))),
  );

  for (const route of options.routes) {
    const handler = outsideOf(async (request, response) => {
      const session = await signIn.sessionOf(request);
      const isAct = route.method === 'POST';
      if (isAct) fromOurPage(request);
      if (session === undefined && isAct) return interrupted(request, response, await readForm(request));
      if (session === undefined) return redirect(response, Url.path`/sign-in?to=${request.path}`);
      const form = isAct ? await checkedForm(request, session) : await kept.take(request, response);
      // What is in a form is not to be replaced by the page of the moment.
      const place = { under: route.under, isStill: isAct || form.size > 0 };
      const visited = visit(options, options.callerOf(session), {
        session,
        names,
        callsOf: options.callsOf,
        form,
        params: paramsOf(request),
        query: queryOf(request),
      });
      try {
        const outcome = await route.run(visited);
        if (outcome instanceof Redirect) return redirect(response, outcome.to);
        if (outcome instanceof Download) return sendDownload(response, outcome, log);
        if (outcome.cause !== undefined) logFailure(log, request, response, outcome.cause, outcome);
        await sendFramed(response, visited, place, outcome);
      } catch (error) {
        if (isSessionOver(error, session)) {
          signIn.end(response, session);
          if (isAct) return interrupted(request, response, form);
          return redirect(response, Url.path`/sign-in?to=${request.path}`);
        }
        const told = explain(error);
        logFailure(log, request, response, error, told);
        const formPage = isAct ? pageOfAct(request.path) : returnPath(request.path);
        await kept.keep(response, formPage, form);
        const page = errorPage(told, traceId(response), isAct ? formPage : undefined);
        await sendFramed(response, visited, place, page);
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

/** 303, so that no form is sent twice. */
function redirect(response: Response, to: Url): void {
  response.status(303).set('location', to.text).end();
}

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
  { status = 200 }: Pick<Page, 'status'>,
): void {
  const about = { trace_id: traceId(response), method: request.method, status, err: error };
  if (status >= 500) log.error(about, 'request failed');
  else log.info(about, 'request refused');
}
