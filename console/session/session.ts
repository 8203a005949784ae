import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { Secret } from '@space/broker-kit';
import * as z from 'zod';
import type { Person } from '../kubernetes/client.ts';

/** A Kubernetes token that may be in a header and, sealed, in a cookie. */
export const bearer = z
  .string()
  .max(2_600)
  .regex(/^[A-Za-z0-9._~+/-]+=*$/);

/** How a person was authenticated: by a Kubernetes token, or by the issuer that named them. */
const shown = z.union([
  z.strictObject({ token: bearer }),
  // The number has no limit of its own: the length of a cookie limits it, and a sign-in with more is refused.
  z.strictObject({ groups: z.array(z.string().max(256)) }),
]);
export type Shown = z.infer<typeof shown>;

/** The content of a session's cookie. */
export const storedSession = z.strictObject({
  id: z.string(),
  shown,
  user: z.string().max(512),
  formKey: z.string(),
  ends: z.number(),
});

export type StoredSession = z.infer<typeof storedSession>;

/** The state before a sign-in, which its form is bound to. */
export const storedStart = z.strictObject({ formKey: z.string() });

/** The state while a person is at the issuer: the values that its answer must match, and the page to return to. */
export const storedTrip = z.strictObject({
  state: z.string(),
  nonce: z.string(),
  verifier: z.string(),
  to: z.string().max(512),
});
export type Trip = z.infer<typeof storedTrip>;

/** The person who has signed in, and how requests are made for them: with their own token, or by impersonation. */
export interface Session {
  readonly id: string;
  readonly proof: { readonly token: Secret<string> } | { readonly person: Person };
  readonly user: string;
  readonly formKey: string;
  /** Seconds since 1970. */
  readonly ends: number;
}

export function sessionOf({ shown, ...stored }: StoredSession): Session {
  const proof =
    'token' in shown
      ? { token: new Secret(shown.token) }
      : { person: { user: stored.user, groups: shown.groups } };
  return { ...stored, proof };
}

/** All values of a session are new: nothing that a browser had before the sign-in stays valid. */
export const newId = (): string => randomBytes(16).toString('base64url');
export const newFormKey = (): string => randomBytes(32).toString('base64url');

/** The token of a form, which proves that a page of this session created it for this address. */
export function formToken(formKey: string, action: string): string {
  return createHmac('sha256', formKey).update(action).digest('base64url');
}

export function isFormToken(given: string | undefined, formKey: string, action: string): boolean {
  const wanted = Buffer.from(formToken(formKey, action));
  const shown = Buffer.from(given ?? '');
  return shown.length === wanted.length && timingSafeEqual(shown, wanted);
}

const MOST_REMEMBERED = 10_000;

/** Sessions that were signed out: this process does not accept a copy of their cookie. */
export class EndedSessions {
  readonly #sessions = new Map<string, Pick<Session, 'user' | 'ends'>>();

  add({ id, user, ends }: Session, now: number): void {
    for (const [known, one] of this.#sessions) if (one.ends <= now) this.#sessions.delete(known);
    if (this.#sessions.size >= MOST_REMEMBERED) this.#forgetOne(user);
    this.#sessions.set(id, { user, ends });
  }

  has(id: string): boolean {
    return this.#sessions.has(id);
  }

  /** A person who signs out of many sessions must not make a session of another person valid again. */
  #forgetOne(user: string): void {
    const [oldest] = this.#sessions.keys();
    const [own = oldest] = [...this.#sessions].flatMap(([id, one]) => (one.user === user ? [id] : []));
    if (own !== undefined) this.#sessions.delete(own);
  }
}
