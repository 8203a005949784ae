import { X509Certificate } from 'node:crypto';
import { isAuthority, type Pair } from './certificates.ts';

/**
 * How a Space's authority is exchanged while everybody goes on: first the next one is trusted beside it, then the next one signs
 * and the former one is trusted beside it, then the former one is forgotten. What was published in one step has reached
 * everybody before the next step.
 */

/** What is stored of the authority. */
export interface Authorities {
  readonly current: Partial<Pair>;
  /** Trusted already, and signs from the next step on. */
  readonly next?: Partial<Pair>;
  /** The certificate that signed before, in PEM, which is still trusted. */
  readonly former?: string;
  /** Value of the annotation by which a person asks for an exchange, and the one that was served last. */
  readonly asked?: string;
  readonly served?: string;
  /** When all of the present step was published, as Kubernetes writes moments. */
  readonly published?: string;
}

export type Step =
  | { readonly kind: 'keep'; readonly authority: Pair }
  /** A next authority is to be made, because of this. */
  | { readonly kind: 'announce'; readonly authority: Pair; readonly why: string }
  | { readonly kind: 'sign'; readonly authority: Pair; readonly former: string }
  | { readonly kind: 'forget'; readonly authority: Pair }
  | { readonly kind: 'refuse' };

/** The step to take now; `stepMs` is how long what was published takes to reach everybody. */
export function nextStep(stored: Authorities, now: Date, stepMs: number): Step {
  const { current, next, former, asked, served, published } = stored;
  if (!isAuthority(current)) return { kind: 'refuse' };
  // No number where nothing was published, and so false.
  const reached = now.getTime() - Date.parse(published ?? '') >= stepMs;
  if (former !== undefined) return { kind: reached ? 'forget' : 'keep', authority: current };
  if (next !== undefined) {
    // Nobody has trusted it for long enough if it is another than the one that was published.
    if (!isAuthority(next)) return { kind: 'announce', authority: current, why: 'the next one was none' };
    return reached
      ? { kind: 'sign', authority: next, former: current.certificate }
      : { kind: 'keep', authority: current };
  }
  const why =
    asked !== undefined && asked !== served
      ? 'it was asked for'
      : isOld(current, now)
        ? 'its end is near'
        : undefined;
  return why === undefined
    ? { kind: 'keep', authority: current }
    : { kind: 'announce', authority: current, why };
}

/** Whether two thirds of its time are over. */
function isOld({ certificate }: Pair, now: Date): boolean {
  const { validFromDate, validToDate } = new X509Certificate(certificate);
  const [from, to] = [validFromDate.getTime(), validToDate.getTime()];
  return now.getTime() > from + ((to - from) * 2) / 3;
}

/** All certificates to trust now, in PEM. */
export const trusted = ({ current, next, former }: Authorities): string =>
  [current.certificate, next?.certificate, former].filter((one) => one !== undefined).join('');
