import type { Request } from 'express';
import { type Form, readForm } from '../http/form.ts';
import { PageError } from '../http/outcome.ts';
import { isFormToken, type Session } from './session.ts';

/** The fields of a form, if a page of this session created it for this address. */
export async function checkedForm(request: Request, session: Session): Promise<Form> {
  const form = await readForm(request);
  if (!isFormToken(form.get('form_token'), session.formKey, request.path)) throw foreignForm();
  return form;
}

export const foreignForm = () =>
  new PageError(
    403,
    'The form was not sent by a page of the console',
    'Open its page again and send it from there. Nothing was changed.',
  );
