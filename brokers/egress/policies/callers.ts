import { hash } from 'node:crypto';
import { Problem } from '../core/problem.ts';
import { type Policies, plainAddress } from './policies.ts';
import type { Strangers } from './strangers.ts';
import type { Tenant } from './tenant.ts';

/** An Assistant that has proved itself, for as long as principal and address stay its own. */
export interface Caller {
  readonly tenant: Tenant;
  readonly stays: () => boolean;
}

/** Seconds after which a replica that is not in step may know whom it does not know now. */
const NOT_IN_STEP_AGAIN = 5;

/**
 * Who calls: the principal in the headers and the address that the connection has must be the same Assistant's. Pods
 * begin to speak a moment before the operator can have told their address, so a refusal is held back for a while; all
 * refusals of well-formed principals are, and so tell nobody which half was wrong.
 *
 * @throws TurnedAway when the address has too many calls that wait, or was refused too often
 * @throws Problem while the replica may only not have been told of the caller yet
 */
export async function identify(
  policies: Policies,
  strangers: Strangers,
  credential: string | undefined,
  remoteAddress: string | undefined,
  patience: { readonly ms: number; readonly signal: () => AbortSignal },
): Promise<Caller | undefined> {
  const address = plainAddress(remoteAddress ?? '');
  if (credential === undefined || remoteAddress === undefined) {
    strangers.refuse(address);
    return undefined;
  }
  const digest = hash('sha256', credential, 'hex');
  const find = (): Caller | undefined => {
    const tenant = policies.find(digest, address);
    return tenant && { tenant, stays: () => policies.find(digest, address) === tenant };
  };
  const found = find();
  if (found !== undefined) return found;
  const leave = strangers.hold(address);
  const { promise, resolve } = Promise.withResolvers<Caller | undefined>();
  const timer = setTimeout(() => resolve(undefined), patience.ms);
  const onAbort = () => resolve(undefined);
  const signal = patience.signal();
  signal.addEventListener('abort', onAbort, { once: true });
  const unwatch = policies.watch(() => {
    const caller = find();
    if (caller !== undefined) resolve(caller);
  });
  try {
    const caller = await promise;
    if (caller === undefined && !policies.inStep)
      throw new Problem('unavailable', { retryAfter: NOT_IN_STEP_AGAIN });
    return caller;
  } finally {
    clearTimeout(timer);
    unwatch();
    leave();
    signal.removeEventListener('abort', onAbort);
  }
}
