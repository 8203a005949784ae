import type { Express, Request } from 'express';
import { type Answers, redirect } from './answers.ts';
import { html } from './html/template.ts';
import { Url } from './html/url.ts';
import { isForWindow, queryOf } from './http/asked.ts';
import type { Origins } from './http/origin.ts';
import { type Page, PageError } from './http/outcome.ts';
import type { KeptLists } from './kubernetes/kept-lists.ts';
import type { LiveStreams } from './pages/live-streams.ts';
import { checkedForm, foreignForm } from './session/checked-form.ts';
import type { SignIn } from './session/sign-in.ts';

interface SignInOptions {
  readonly origins: Origins;
  readonly signIn: SignIn;
  readonly lists: KeptLists;
  readonly live: LiveStreams;
}

/** @throws PageError for a form that no page of the console has sent */
export function requireOurPage(origins: Origins, request: Request): void {
  if (!origins.isFromOurPage(request.headers)) throw foreignForm();
}

/**
 * Other sites can make a browser load this as an image or in a frame, which must not use up attempts to sign in. Nor may a
 * page that renews itself in the background get a form, whose key would take the place of that of a form in a window.
 */
function requireWindow(request: Request): void {
  if (!isForWindow(request))
    throw new PageError(403, 'This page cannot be embedded', 'Open it in a window, from the sign-in page.');
}

/** Routes for signing in by a token or an issuer, and for signing out. */
export function serveSignIn(
  app: Express,
  { origins, signIn, lists, live }: SignInOptions,
  answers: Answers,
): void {
  app.get(
    '/sign-in',
    answers.outside(async (request, response) => {
      requireWindow(request);
      answers.alone(response, await signIn.begin(request, response, queryOf(request).get('to') ?? undefined));
    }),
  );
  app.post(
    '/sign-in',
    answers.outside(async (request, response) => {
      requireOurPage(origins, request);
      const taken = await signIn.take(request, response);
      if ('to' in taken) return redirect(response, taken.to);
      answers.alone(response, await signIn.begin(request, response, taken.wanted, taken.problem));
    }),
  );
  // A link and not a form, since browsers do not let our forms end at another host.
  app.get(
    '/sign-in/issuer',
    answers.outside(async (request, response) => {
      requireWindow(request);
      const to = queryOf(request).get('to') ?? undefined;
      const url = await signIn.sendAway(request, response, origins.of(request.headers) ?? '', to);
      response.status(303).set('location', url.href).end();
    }),
  );
  app.get(
    '/sign-in/issuer/answer',
    answers.outside(async (request, response) => {
      requireWindow(request);
      const taken = await signIn.comeBack(request, response, origins.of(request.headers) ?? '');
      if (!('to' in taken))
        return answers.alone(response, await signIn.begin(request, response, taken.wanted, taken.problem));
      // After a redirect from another site, a browser would request the page without the session, which it sends only
      // from our own links.
      response.set('refresh', `0; url=${taken.to.text}`);
      answers.alone(response, signedIn(taken.to));
    }),
  );
  app.post(
    '/sign-out',
    answers.outside(async (request, response) => {
      requireOurPage(origins, request);
      const session = await signIn.sessionOf(request);
      if (session !== undefined) {
        await checkedForm(request, session);
        lists.forget(session);
        live.forget(session);
        signIn.leave(response, session);
      }
      redirect(response, Url.path`/sign-in`);
    }),
  );
}

const signedIn = (to: Url): Page => ({
  title: 'Signed in',
  main: html`<h1>Signed in</h1><p><a href="${to}">Continue</a></p>`,
});
