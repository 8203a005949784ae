import { X509Certificate } from 'node:crypto';
import { isAuthority, type Pair } from './certificates.ts';

/**
 * The exchange of a Space's authority without an interruption. First the next authority is trusted beside the current
 * one, then it signs and the former one is still trusted, then the former one is forgotten. Each step waits until the
 * previous one has reached everybody.
 */

/** The stored state of the authority. */
export interface Authorities {
  readonly current: Partial<Pair>;
  /** The next authority, which is trusted already and signs from the next step on. */
  readonly next?: Partial<Pair>;
  /** The certificate that signed before, in PEM, which is still trusted. */
  readonly former?: string;
  /** The value of the annotation by which a person asks for an exchange, and the last value that was served. */
  readonly asked?: string;
  readonly served?: string;
  /** When the present step was completely published, in the format of Kubernetes. */
  readonly published?: string;
}

export type Step =
  | { readonly kind: 'keep'; readonly authority: Pair }
  /** Create a next authority, for this reason. */
  | { readonly kind: 'announce'; readonly authority: Pair; readonly why: string }
  | { readonly kind: 'sign'; readonly authority: Pair; readonly former: string }
  | { readonly kind: 'forget'; readonly authority: Pair }
  | { readonly kind: 'refuse' };

/** The step to take now; `stepMs` is the time that a published change takes to reach everybody, in milliseconds. */
export function nextStep(stored: Authorities, now: Date, stepMs: number): Step {
  const { current, next, former, asked, served, published } = stored;
  if (!isAuthority(current)) return { kind: 'refuse' };
  // Without a time the difference is NaN, so this is false.
  const reached = now.getTime() - Date.parse(published ?? '') >= stepMs;
  if (former !== undefined) return { kind: reached ? 'forget' : 'keep', authority: current };
  if (next !== undefined) {
    // An authority other than the published one has not been trusted for long enough.
    if (!isAuthority(next)) return { kind: 'announce', authority: current, why: 'the next one was none' };
    return reached
      ? { kind: 'sign', authority: next, former: current.certificate }
      : { kind: 'keep', authority: current };
  }
  const why =
    asked !== undefined && asked !== served
      ? 'it was asked for'
      : isOld(current, now)
        ? 'it expires soon'
        : undefined;
  return why === undefined
    ? { kind: 'keep', authority: current }
    : { kind: 'announce', authority: current, why };
}

/** Whether two thirds of its lifetime have passed. */
function isOld({ certificate }: Pair, now: Date): boolean {
  const { validFromDate, validToDate } = new X509Certificate(certificate);
  const [from, to] = [validFromDate.getTime(), validToDate.getTime()];
  return now.getTime() > from + ((to - from) * 2) / 3;
}

/** All authorities to trust now, in PEM. */
export const trusted = ({ current, next, former }: Authorities): string =>
  [current.certificate, next?.certificate, former].filter((one) => one !== undefined).join('');
