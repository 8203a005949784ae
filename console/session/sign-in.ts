import { RateLimit, Secret } from '@space/broker-kit';
import type { Request, Response } from 'express';
import { type Html, html } from '../html/template.ts';
import { Url } from '../html/url.ts';
import { queryOf } from '../http/asked.ts';
import { readForm } from '../http/form.ts';
import { notFound, PageError } from '../http/outcome.ts';
import { KubernetesError } from '../kubernetes/client.ts';
import { endCookie, readCookie, setCookie } from './cookies.ts';
import type { Issuer } from './issuer.ts';
import { IssuerError } from './issuer-error.ts';
import { returnPath } from './return-path.ts';
import type { Sealed } from './sealed.ts';
import {
  bearer,
  type EndedSessions,
  formToken,
  isFormToken,
  newFormKey,
  newId,
  type Session,
  type Shown,
  sessionOf,
  storedSession,
  storedStart,
  storedTrip,
} from './session.ts';

export interface SignInOptions {
  readonly sealed: Sealed;
  readonly ended: EndedSessions;
  readonly sessionSeconds: number;
  readonly now: () => Date;
  readonly space: string;
  readonly namespace: string;
  /** The limit for one address. */
  readonly attemptsPerMinute: number;
  /** Returns the user of a token. */
  readonly review: (token: Secret<string>) => Promise<string | undefined>;
  /** The identity provider, if there is one. */
  readonly issuer?: Issuer | undefined;
}

/** The address to go to, or what is wrong. */
type Taken = { readonly to: Url } | { readonly problem: string; readonly wanted: string | undefined };

const START_SECONDS = 900;
const ACTION = Url.path`/sign-in`;
const CALLBACK = Url.path`/sign-in/issuer/answer`;

/** Sign-in, sign-out, and the session of a request. */
export class SignIn {
  readonly #options: SignInOptions;
  /** Tokens cannot be guessed; this limits how many requests to the API server strangers can cause. */
  readonly #attempts: RateLimit;

  constructor(options: SignInOptions) {
    this.#options = options;
    const burst = options.attemptsPerMinute;
    this.#attempts = new RateLimit({ perSecond: burst / 60, burst });
  }

  /** Returns the session of a request; undefined if nobody is signed in, or no longer. */
  async sessionOf(request: Request): Promise<Session | undefined> {
    const cookie = readCookie(request.headers.cookie, 'session');
    if (cookie === undefined) return undefined;
    const stored = await this.#options.sealed.open('session', cookie, storedSession);
    return stored === undefined || this.#options.ended.has(stored.id) ? undefined : sessionOf(stored);
  }

  /** Starts a sign-in form, which only the same browser can send. It may have the form open in several windows. */
  async begin(
    request: Request,
    response: Response,
    to: string | undefined,
    problem?: string,
  ): Promise<{ readonly title: string; readonly main: Html; readonly status: number }> {
    const { formKey } = (await this.#startOf(request)) ?? { formKey: newFormKey() };
    const start = await this.#options.sealed.seal('sign-in', { formKey }, START_SECONDS);
    if (start !== undefined) setCookie(response, 'sign-in', start, START_SECONDS);
    const { issuer, space, namespace } = this.#options;
    const about = { space, namespace, formKey, to: returnPath(to).text, problem };
    const main = signInForm({ ...about, issuer: issuer?.host });
    return { title: 'Sign in', main, status: problem === undefined ? 200 : 422 };
  }

  /** Processes the form with a token. */
  async take(request: Request, response: Response): Promise<Taken> {
    this.#limit(request);
    const form = await readForm(request);
    const { review } = this.#options;
    const start = await this.#startOf(request);
    const wanted = form.get('to');
    if (start === undefined || !isFormToken(form.get('form_token'), start.formKey, ACTION.text))
      return { problem: 'The page was open for too long. Enter the token again.', wanted };
    const token = bearer.safeParse(form.get('token')?.trim());
    if (!token.success)
      return { problem: 'This is not a token, or it has more than 2,600 characters.', wanted };
    const secret = new Secret(token.data);
    const user = await review(secret).catch(cannotAsk);
    if (user === undefined) return { problem: 'The API server does not know this token.', wanted };
    if (!(await this.#enter(response, { token: token.data }, user)))
      return { problem: 'The token is too long for a session.', wanted };
    return { to: returnPath(wanted) };
  }

  /** Starts a sign-in at the issuer; only the same browser can bring the answer, once. */
  async sendAway(request: Request, response: Response, origin: string, to: string | undefined): Promise<URL> {
    this.#limit(request);
    const { issuer, sealed } = this.#options;
    if (issuer === undefined) throw notFound();
    const { url, proof } = await issuer.begin(`${origin}${CALLBACK.text}`).catch(issuerFailed);
    const trip = await sealed.seal('trip', { ...proof, to: returnPath(to).text }, START_SECONDS);
    if (trip !== undefined) setCookie(response, 'trip', trip, START_SECONDS);
    return url;
  }

  /** Processes the issuer's answer. */
  async comeBack(request: Request, response: Response, origin: string): Promise<Taken> {
    this.#limit(request);
    const { issuer, sealed } = this.#options;
    if (issuer === undefined) throw notFound();
    const cookie = readCookie(request.headers.cookie, 'trip');
    const trip = cookie === undefined ? undefined : await sealed.open('trip', cookie, storedTrip);
    // The answer for an earlier window of this browser leaves the values of the last window as they are.
    if (trip !== undefined && queryOf(request).get('state') !== trip.state)
      issuerFailed(new IssuerError('the answer is not to the last question'));
    endCookie(response, 'trip');
    if (trip === undefined)
      return { problem: 'This browser did not begin to sign in, or began too long ago.', wanted: undefined };
    const answer = new URL(`${origin}${CALLBACK.text}?${queryOf(request)}`);
    const { user, groups } = await issuer.finish(answer, trip).catch(issuerFailed);
    if (!(await this.#enter(response, { groups: [...groups] }, user)))
      return { problem: 'You are in too many groups for a session.', wanted: trip.to };
    return { to: returnPath(trip.to) };
  }

  async #startOf(request: Request): Promise<{ readonly formKey: string } | undefined> {
    const cookie = readCookie(request.headers.cookie, 'sign-in');
    return cookie === undefined ? undefined : this.#options.sealed.open('sign-in', cookie, storedStart);
  }

  #limit(request: Request): void {
    const wait = this.#attempts.take(request.socket.remoteAddress ?? '');
    if (wait !== undefined) throw new PageError(429, 'Too many attempts', `Try again in ${wait} seconds.`);
  }

  async #enter(response: Response, shown: Shown, user: string): Promise<boolean> {
    const { sealed, now, sessionSeconds } = this.#options;
    const ends = Math.floor(now().getTime() / 1000) + sessionSeconds;
    const value = { id: newId(), shown, user, formKey: newFormKey(), ends };
    const cookie = await sealed.seal('session', value, sessionSeconds);
    if (cookie === undefined) return false;
    setCookie(response, 'session', cookie, sessionSeconds);
    endCookie(response, 'sign-in');
    return true;
  }

  end(response: Response, session: Session): void {
    this.#options.ended.add(session, this.#options.now().getTime() / 1000);
    endCookie(response, 'session');
  }

  /** Removes everything from the browser. */
  leave(response: Response, session: Session): void {
    this.end(response, session);
    for (const purpose of ['sign-in', 'trip', 'kept'] as const) endCookie(response, purpose);
    // Cookies are not cleared by this header, since a browser would delete those of the whole registered domain.
    response.set('clear-site-data', '"cache", "storage"');
  }
}

/** The error if the console itself cannot ask the API server; it is not the fault of the person who signs in. */
function cannotAsk(cause: unknown): never {
  if (!(cause instanceof KubernetesError)) throw cause;
  const advice =
    'The API server did not check the token. Try again in a moment; if this persists, the log says why.';
  throw new PageError(503, 'Nobody can sign in now', advice, { cause });
}

function issuerFailed(cause: unknown): never {
  if (!(cause instanceof IssuerError)) throw cause;
  const advice = 'The issuer did not identify you. Try again; if this persists, the log says why.';
  throw new PageError(502, 'You are not signed in', advice, { cause });
}

/** Whether the API server no longer accepts the session's token. */
export const isSessionOver = (error: unknown, { proof }: Session): boolean =>
  error instanceof KubernetesError && error.status === 401 && 'token' in proof;

function signInForm(about: {
  readonly space: string;
  readonly namespace: string;
  readonly formKey: string;
  readonly to: string;
  readonly problem: string | undefined;
  readonly issuer: string | undefined;
}): Html {
  const { space, namespace, formKey, to, problem, issuer } = about;
  const other =
    issuer === undefined
      ? ''
      : html`<p><a class="button" href="${Url.path`/sign-in/issuer?to=${to}`}">Sign in with ${issuer}</a></p>
<p class="quiet">You can see and do here what the API server permits you. Or use a Kubernetes token:</p>`;
  const said =
    problem === undefined ? '' : html`<p class="problem" id="token-problem" role="alert">${problem}</p>`;
  return html`<h1>${space}</h1><p class="lead">Sign in with a Kubernetes token. You can see and do here what this token may, and nothing else.</p>${other}
<form method="post" action="${ACTION}"><input type="hidden" name="form_token" value="${formToken(formKey, ACTION.text)}">
<input type="hidden" name="to" value="${to}"><div class="field"><label for="token">Token</label>${said}
<input id="token" name="token" type="password" autocomplete="off" spellcheck="false" required autofocus aria-describedby="token-help token-problem" aria-invalid="${problem === undefined ? 'false' : 'true'}">
<p class="quiet" id="token-help">For a service account: <code>kubectl -n ${namespace} create token NAME</code></p></div>
<button class="${issuer === undefined ? '' : 'plain'}">Sign in</button></form>`;
}
