import { type Logger, traceIdOf } from '@space/broker-kit';
import type { Request, Response } from 'express';
import { html } from './html/template.ts';
import type { Url } from './html/url.ts';
import type { Assets } from './http/assets.ts';
import { errorBody, explain } from './http/errors.ts';
import type { Page, PageError } from './http/outcome.ts';
import { alone, framed } from './pages/layout.ts';
import type { Section, SpaceNames, Visit } from './visit.ts';

interface AnswersOptions {
  readonly names: SpaceNames;
  readonly assets: Assets;
  readonly countRepairs: (visit: Visit) => Promise<number | undefined>;
  readonly log: Logger;
}

/** The section of a page, and whether the live update may replace it. */
export interface Place {
  readonly under: Section;
  readonly isStill: boolean;
}

/** Sends pages, and reports errors: to the person as a page, to the administrator as a log line. */
export class Answers {
  readonly #options: AnswersOptions;

  constructor(options: AnswersOptions) {
    this.#options = options;
  }

  alone(response: Response, page: Page): void {
    const { assets, names } = this.#options;
    response
      .status(page.status ?? 200)
      .type('text/html')
      .send(alone({ ...page, assets }, names.space).toString());
  }

  async framed(response: Response, visited: Visit, place: Place, page: Page): Promise<void> {
    const { assets, countRepairs } = this.#options;
    // An error page must not fail because the number in the sidebar is missing.
    const repairs = await countRepairs(visited).catch(() => undefined);
    const text = framed(visited, { ...page, ...place, repairs, assets }).toString();
    response
      .status(page.status ?? 200)
      .type('text/html')
      .send(text);
  }

  errorPage(response: Response, error: PageError, back?: Url): Page {
    return {
      title: error.title,
      main: errorBody(error, traceId(response), this.#options.names, back),
      status: error.status,
    };
  }

  /** For requests without a session, and for errors before it is known who asks. */
  outside(work: (request: Request, response: Response) => Promise<void>) {
    return async (request: Request, response: Response): Promise<void> => {
      try {
        await work(request, response);
      } catch (error) {
        const told = explain(error);
        this.logFailure(request, response, error, told);
        const page = this.errorPage(response, told);
        this.alone(response, { ...page, main: html`<h1>${page.title}</h1>${page.main}` });
      }
    };
  }

  /** Neither the request nor the API server's message is logged, since both may contain a secret value. */
  logFailure(
    request: Request,
    response: Response,
    error: unknown,
    { status = 200 }: Pick<Page, 'status'>,
  ): void {
    const { log } = this.#options;
    const about = { trace_id: traceId(response), method: request.method, status, err: error };
    if (status >= 500) log.error(about, 'request failed');
    else log.info(about, 'request refused');
  }
}

/** Redirects with 303, so that no form is sent twice. */
export function redirect(response: Response, to: Url): void {
  response.status(303).set('location', to.text).end();
}

function traceId(response: Response): string {
  const known: unknown = response.locals['traceId'];
  if (typeof known === 'string') return known;
  const made = traceIdOf(undefined);
  response.locals['traceId'] = made;
  return made;
}
