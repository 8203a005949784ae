import type { Identity } from './context.ts';
import { Backoff } from './runtime/backoff.ts';
import type { ApiClient } from './runtime/client.ts';
import { type Clock, sleep } from './runtime/clock.ts';
import type { OwnerReference } from './runtime/lease-object.ts';

const SERVICE_ACCOUNT = /^system:serviceaccount:([^:]+):([^:]+)$/;

export interface Account {
  readonly identity: Identity;
  /** The ServiceAccount, as the owner of objects that are deleted with it. */
  readonly owner?: OwnerReference;
}

/** Asks the API server for the operator's own identity until it answers, so that nobody has to configure it. */
export async function identify(
  client: ApiClient,
  clock: Clock,
  signal: AbortSignal,
  onProblem: (error: unknown) => void = () => {},
): Promise<Account> {
  const backoff = new Backoff({ firstMs: 100, longestMs: 5_000 }, clock);
  for (;;) {
    try {
      return await ask(client, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      onProblem(error);
      await sleep(clock, backoff.next(), signal);
    }
  }
}

interface Review {
  readonly status: { readonly userInfo: { readonly username: string; readonly uid?: string } };
}

async function ask(client: ApiClient, signal: AbortSignal): Promise<Account> {
  const review = await client.call<Review>({
    method: 'POST',
    path: '/apis/authentication.k8s.io/v1/selfsubjectreviews',
    body: { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' },
    signal,
  });
  const { username, uid } = review.status.userInfo;
  const [, namespace, name] = SERVICE_ACCOUNT.exec(username) ?? [];
  if (!namespace || !name) return { identity: { kind: 'User', name: username } };
  const identity = { kind: 'ServiceAccount', name, namespace } as const;
  return uid ? { identity, owner: { apiVersion: 'v1', kind: 'ServiceAccount', name, uid } } : { identity };
}
