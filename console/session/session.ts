import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { Secret } from '@space/broker-kit';
import * as z from 'zod';

/** A token of Kubernetes as it may stand in a header and, sealed, in a cookie. */
export const bearer = z
  .string()
  .max(2_600)
  .regex(/^[A-Za-z0-9._~+/-]+=*$/);

/** What a session's cookie holds. */
export const storedSession = z.strictObject({
  id: z.string(),
  token: bearer,
  user: z.string().max(512),
  formKey: z.string(),
  ends: z.number(),
});

export type StoredSession = z.infer<typeof storedSession>;

/** Of the time before somebody signs in: only what its form is bound to. */
export const storedStart = z.strictObject({ formKey: z.string() });

/** Who signed in, and with what they ask the API server. */
export interface Session {
  readonly id: string;
  readonly token: Secret<string>;
  readonly user: string;
  readonly formKey: string;
  /** Seconds since 1970. */
  readonly ends: number;
}

export const sessionOf = (stored: StoredSession): Session => ({
  ...stored,
  token: new Secret(stored.token),
});

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
  readonly #ends = new Map<string, number>();

  add({ id, ends }: Session, now: number): void {
    for (const [known, at] of this.#ends) if (at <= now) this.#ends.delete(known);
    const [oldest] = this.#ends.keys();
    if (this.#ends.size >= MOST_REMEMBERED && oldest !== undefined) this.#ends.delete(oldest);
    this.#ends.set(id, ends);
  }

  has(id: string): boolean {
    return this.#ends.has(id);
  }
}
