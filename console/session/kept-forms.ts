import type { Request, Response } from 'express';
import * as z from 'zod';
import type { Url } from '../html/url.ts';
import type { Form } from '../http/form.ts';
import { endCookie, readCookie, setCookie } from './cookies.ts';
import type { Sealed } from './sealed.ts';

const stored = z.strictObject({ page: z.string(), fields: z.record(z.string(), z.string()) });

/** What may be kept is named so; an input of a secret is named `secret-…` or `value`. */
const MAY_BE_KEPT = /^(?:name|field-[a-z0-9-]{1,40})$/;
const SECONDS = 900;
const NOTHING: Form = new Map();

/** What somebody entered in a form that was not taken, but for secrets, until they see its page again. Their browser keeps it. */
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

  /** Once, and on the page that it belongs to. */
  async take(request: Request, response: Response): Promise<Form> {
    const cookie = readCookie(request.headers.cookie, 'kept');
    if (cookie === undefined) return NOTHING;
    const kept = await this.#sealed.open('kept', cookie, stored);
    if (kept?.page !== request.path) return NOTHING;
    endCookie(response, 'kept');
    return new Map(Object.entries(kept.fields));
  }
}
