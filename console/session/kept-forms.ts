import type { Request, Response } from 'express';
import * as z from 'zod';
import type { Url } from '../html/url.ts';
import { isForWindow } from '../http/asked.ts';
import type { Form } from '../http/form.ts';
import { endCookie, readCookie, setCookie } from './cookies.ts';
import type { Sealed } from './sealed.ts';

const stored = z.strictObject({ page: z.string(), fields: z.record(z.string(), z.string()) });

/** The names of inputs that may be kept, a quota's among them; those of secrets are named `secret-…` or `value`. */
const MAY_BE_KEPT = /^(?:name|database|storage|assistants|field-[a-z0-9-]{1,40})$/;
const SECONDS = 900;
const NOTHING: Form = new Map();

/**
 * Keeps in the browser, except secrets, what a person entered in a form that was refused, until they see its page
 * again.
 */
export class KeptForms {
  readonly #sealed: Sealed;

  constructor(sealed: Sealed) {
    this.#sealed = sealed;
  }

  async keep(response: Response, page: Url, form: Form): Promise<void> {
    const fields = Object.fromEntries([...form].filter(([name]) => MAY_BE_KEPT.test(name)));
    if (Object.keys(fields).length === 0) return;
    const sealed = await this.#sealed.seal('kept', { page: page.text, fields }, SECONDS);
    if (sealed !== undefined) setCookie(response, 'kept', sealed, SECONDS);
  }

  /** Returns the fields once, and only for a window with their page. */
  async take(request: Request, response: Response): Promise<Form> {
    const cookie = readCookie(request.headers.cookie, 'kept');
    if (cookie === undefined || !isForWindow(request)) return NOTHING;
    const kept = await this.#sealed.open('kept', cookie, stored);
    if (kept?.page !== request.path) return NOTHING;
    endCookie(response, 'kept');
    return new Map(Object.entries(kept.fields));
  }
}
