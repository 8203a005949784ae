import type { Logger } from '@space/broker-kit';
import type { Request, Response } from 'express';
import { type Answers, redirect } from './answers.ts';
import type { CallsOf } from './gateway/calls.ts';
import { Url } from './html/url.ts';
import { paramsOf, queryOf } from './http/asked.ts';
import { sendDownload } from './http/download.ts';
import { explain } from './http/errors.ts';
import { type Form, readForm } from './http/form.ts';
import type { Origins } from './http/origin.ts';
import { Download, Redirect } from './http/outcome.ts';
import type { Turns } from './http/turns.ts';
import type { Caller, Kubernetes } from './kubernetes/client.ts';
import type { KeptLists } from './kubernetes/kept-lists.ts';
import { listAssistants, listCapsules } from './kubernetes/space.ts';
import type { MachineryOf } from './machinery/machinery.ts';
import { checkedForm } from './session/checked-form.ts';
import type { KeptForms } from './session/kept-forms.ts';
import { pageOfAct, returnPath } from './session/return-path.ts';
import type { Session } from './session/session.ts';
import { isSessionOver, type SignIn } from './session/sign-in.ts';
import { requireOurPage } from './sign-in-routes.ts';
import { type Route, type SetsOf, type SpaceNames, visit } from './visit.ts';

interface PageOptions {
  readonly names: SpaceNames;
  readonly origins: Origins;
  readonly signIn: SignIn;
  readonly kept: KeptForms;
  readonly kubernetes: Kubernetes;
  readonly lists: KeptLists;
  readonly callerOf: (session: Session) => Caller;
  readonly callsOf: CallsOf | undefined;
  readonly setsOf: SetsOf | undefined;
  readonly machineryOf: MachineryOf;
  readonly turns: Turns;
  readonly now: () => Date;
  readonly log: Logger;
}

interface Exchange {
  readonly request: Request;
  readonly response: Response;
}

/**
 * Serves a page or an act for a person who has signed in: session, check that our page sent the form, fields, the page
 * itself.
 */
export async function servePage(
  options: PageOptions,
  answers: Answers,
  route: Route,
  exchange: Exchange,
): Promise<void> {
  const { signIn, kept, turns } = options;
  const { request, response } = exchange;
  const session = await signIn.sessionOf(request);
  const isAct = route.method === 'POST';
  if (isAct) requireOurPage(options.origins, request);
  if (session === undefined && isAct) return interrupted(options, answers, exchange, await readForm(request));
  if (session === undefined) return redirect(response, Url.path`/sign-in?to=${request.path}`);
  const form = isAct ? await checkedForm(request, session) : await kept.take(request, response);
  const leave = await turns.enter(session.user, response).catch(async (error: unknown) => {
    await kept.keep(response, formPageOf(isAct, request), form);
    throw error;
  });
  await answered(options, answers, route, exchange, { session, form }).finally(leave);
}

const formPageOf = (isAct: boolean, { path }: Request): Url => (isAct ? pageOfAct(path) : returnPath(path));

interface Asked {
  readonly session: Session;
  readonly form: Form;
}

async function answered(
  options: PageOptions,
  answers: Answers,
  route: Route,
  exchange: Exchange,
  { session, form }: Asked,
): Promise<void> {
  const { signIn, kept } = options;
  const { request, response } = exchange;
  const isAct = route.method === 'POST';
  // The live update must not replace a form that is being filled in.
  const place = { under: route.under, isStill: isAct || form.size > 0 };
  const visited = visit(options, options.callerOf(session), {
    session,
    names: options.names,
    callsOf: options.callsOf,
    setsOf: options.setsOf,
    machineryOf: options.machineryOf,
    form,
    now: options.now,
    params: paramsOf(request),
    query: queryOf(request),
  });
  // The number in the sidebar needs these lists on every page, so they are requested early.
  if (!isAct) void Promise.allSettled([listCapsules(visited), listAssistants(visited)]);
  try {
    const outcome = await route.run(visited);
    if (outcome instanceof Redirect) return redirect(response, outcome.to);
    if (outcome instanceof Download) return sendDownload(response, outcome, options.log);
    if (outcome.cause !== undefined) answers.logFailure(request, response, outcome.cause, outcome);
    await answers.framed(response, visited, place, outcome);
  } catch (error) {
    if (isSessionOver(error, session)) {
      signIn.end(response, session);
      if (isAct) return interrupted(options, answers, exchange, form);
      return redirect(response, Url.path`/sign-in?to=${request.path}`);
    }
    const told = explain(error);
    answers.logFailure(request, response, error, told);
    const formPage = formPageOf(isAct, request);
    await kept.keep(response, formPage, form);
    const page = answers.errorPage(response, told, isAct ? formPage : undefined);
    await answers.framed(response, visited, place, page);
  }
}

const SESSION_ENDED =
  'Your session has ended, and nothing was changed. After you sign in, the form contains what you entered, except secrets.';

/** Handles a form whose session expired while it was filled in. */
async function interrupted(
  { signIn, kept }: PageOptions,
  answers: Answers,
  { request, response }: Exchange,
  form: Form,
): Promise<void> {
  const page = pageOfAct(request.path);
  await kept.keep(response, page, form);
  answers.alone(response, await signIn.begin(request, response, page.text, SESSION_ENDED));
}
