import { parseKeys } from '@space/broker-kit';
import type * as z from 'zod';
import { type Purpose, Sealed } from '../session/sealed.ts';
import { formToken, storedSession } from '../session/session.ts';
import type { Browser, Shown } from './browser.ts';
import type { TestEnvironment } from './environment.ts';

type Keys = Pick<TestEnvironment, 'sessionKeys'>;

/** What one of our cookies of this browser holds. */
export async function unsealed<T>(
  { sessionKeys }: Keys,
  browser: Browser,
  purpose: Purpose,
  schema: z.ZodType<T>,
): Promise<T | undefined> {
  const keys = parseKeys(sessionKeys, 'keys');
  const sealed = new Sealed({ space: 'home', keys: () => keys, now: () => new Date() });
  return sealed.open(purpose, browser.cookies.get(`__Host-space-${purpose}`) ?? '', schema);
}

/** What a page of this browser's session would put into a form that goes to `action`. */
export async function formTokenOf(keys: Keys, browser: Browser, action: string): Promise<string> {
  const session = await unsealed(keys, browser, 'session', storedSession);
  if (session === undefined) throw new Error('nobody has signed in');
  return formToken(session.formKey, action);
}

/** Sends a form as a page of the session would, also where no page offers it. */
export async function forged(
  keys: Keys,
  browser: Browser,
  action: string,
  fields: Readonly<Record<string, string>>,
): Promise<Shown> {
  return browser.post(action, { ...fields, form_token: await formTokenOf(keys, browser, action) });
}
