import { hash } from 'node:crypto';
import { Problem } from '../core/problem.ts';
import { type Policies, plainAddress } from './policies.ts';
import { isLoopback, type Strangers } from './strangers.ts';
import type { Tenant } from './tenant.ts';

/** An authenticated Assistant. */
export interface Caller {
  readonly tenant: Tenant;
  /** Whether principal and address still belong to the Assistant. */
  readonly isStillValid: () => boolean;
}

/** Seconds until an unknown caller may retry at a replica that does not have the policies of all Assistants yet. */
const RETRY_AFTER_S = 5;

/** How an unknown caller waits. */
interface Wait {
  readonly ms: number;
  readonly signal: () => AbortSignal;
  /** Whether the connection has a place among those of the Capsule's new pods. */
  readonly arrives: (capsule: string) => boolean;
}

/**
 * Authenticates a caller: the principal in the headers and the address of the connection must belong to the same
 * Assistant. A pod may call before the operator has sent its address, so an unknown caller waits for a while; every
 * well-formed principal does as long, so that a refusal does not tell which half was wrong. One with the principal of an
 * Assistant waits at a place of its Capsule, if its address is not that of any pod.
 *
 * @throws TurnedAway when too many calls of the address wait, or it was refused too often
 * @throws Problem while the replica may not have the caller's policy yet
 */
export async function identify(
  { policies, strangers }: { readonly policies: Policies; readonly strangers: Strangers },
  {
    credential,
    remoteAddress,
  }: { readonly credential: string | undefined; readonly remoteAddress: string | undefined },
  wait: Wait,
): Promise<Caller | undefined> {
  const address = plainAddress(remoteAddress ?? '');
  if (credential === undefined || remoteAddress === undefined) {
    strangers.refuse(address);
    return undefined;
  }
  const digest = hash('sha256', credential, 'hex');
  const find = (): Caller | undefined => {
    const tenant = policies.find(digest, address);
    return tenant && { tenant, isStillValid: () => policies.find(digest, address) === tenant };
  };
  const found = find();
  if (found !== undefined) return found;
  const isFree = policies.capsuleAt(address) === undefined && !isLoopback(address);
  const capsule = isFree ? policies.capsuleOf(digest) : undefined;
  const isArriving = capsule !== undefined && wait.arrives(capsule);
  const release = isArriving ? strangers.countArriving() : strangers.enterWaiting(address);
  const { promise, resolve } = Promise.withResolvers<Caller | undefined>();
  const timer = setTimeout(() => resolve(undefined), wait.ms);
  const onAbort = () => resolve(undefined);
  const signal = wait.signal();
  signal.addEventListener('abort', onAbort, { once: true });
  const unwatch = policies.watch(() => {
    const caller = find();
    if (caller !== undefined) resolve(caller);
  });
  try {
    const caller = await promise;
    if (caller === undefined && !policies.inStep)
      throw new Problem('unavailable', { retryAfter: RETRY_AFTER_S });
    if (caller === undefined && isArriving) strangers.refuse(address);
    return caller;
  } finally {
    clearTimeout(timer);
    unwatch();
    release();
    signal.removeEventListener('abort', onAbort);
  }
}
