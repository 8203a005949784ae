import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { Secret } from '@space/broker-kit';
import * as z from 'zod';
import type { Person } from '../kubernetes/client.ts';

/** A token of Kubernetes as it may stand in a header and, sealed, in a cookie. */
export const bearer = z
  .string()
  .max(2_600)
  .regex(/^[A-Za-z0-9._~+/-]+=*$/);

/** How somebody has shown who they are: by a token of Kubernetes, or to the issuer, who named them. */
const shown = z.union([
  z.strictObject({ token: bearer }),
  z.strictObject({ groups: z.array(z.string().max(256)).max(64) }),
]);
export type Shown = z.infer<typeof shown>;

/** What a session's cookie holds. */
export const storedSession = z.strictObject({
  id: z.string(),
  shown,
  user: z.string().max(512),
  formKey: z.string(),
  ends: z.number(),
});

export type StoredSession = z.infer<typeof storedSession>;

/** The session before a sign-in, to which only the form is bound. */
export const storedStart = z.strictObject({ formKey: z.string() });

/** The session while somebody is at the issuer: the values that its answer is bound to, and the page to return to. */
export const storedTrip = z.strictObject({
  state: z.string(),
  nonce: z.string(),
  verifier: z.string(),
  to: z.string().max(512),
});
export type Trip = z.infer<typeof storedTrip>;

/** The person who signed in, and how they ask the API server: with their own token, or impersonated as the issuer named them. */
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

/** Everything of a session is new: nothing that a browser brought before it signed in goes on to count. */
export const newId = (): string => randomBytes(16).toString('base64url');
export const newFormKey = (): string => randomBytes(32).toString('base64url');

/** What a form carries to show that a page of this session made it, for this very address. */
export function formToken(formKey: string, action: string): string {
  return createHmac('sha256', formKey).update(action).digest('base64url');
}

export function isFormToken(given: string | undefined, formKey: string, action: string): boolean {
  const wanted = Buffer.from(formToken(formKey, action));
  const shown = Buffer.from(given ?? '');
  return shown.length === wanted.length && timingSafeEqual(shown, wanted);
}

const MOST_REMEMBERED = 10_000;

/** Sessions that somebody signed out of: a copy of their cookie is worth nothing to this process. */
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

  /** Whoever ends many sessions brings no other person's back. */
  #forgetOne(user: string): void {
    const [oldest] = this.#sessions.keys();
    const [own = oldest] = [...this.#sessions].flatMap(([id, one]) => (one.user === user ? [id] : []));
    if (own !== undefined) this.#sessions.delete(own);
  }
}
