import type { Identity } from './context.ts';
import { Backoff } from './runtime/backoff.ts';
import type { ApiClient } from './runtime/client.ts';
import { type Clock, sleep } from './runtime/clock.ts';

const SERVICE_ACCOUNT = /^system:serviceaccount:([^:]+):([^:]+)$/;

/** Asks the API server who we are, until it answers, so that nobody has to configure it. */
export async function identify(client: ApiClient, clock: Clock, signal: AbortSignal): Promise<Identity> {
  const backoff = new Backoff({ firstMs: 100, longestMs: 5_000 }, clock);
  for (;;) {
    try {
      return await ask(client, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      await sleep(clock, backoff.next(), signal);
    }
  }
}

async function ask(client: ApiClient, signal: AbortSignal): Promise<Identity> {
  const review = await client.call<{ readonly status: { readonly userInfo: { readonly username: string } } }>(
    {
      method: 'POST',
      path: '/apis/authentication.k8s.io/v1/selfsubjectreviews',
      body: { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' },
      signal,
    },
  );
  const { username } = review.status.userInfo;
  const [, namespace, name] = SERVICE_ACCOUNT.exec(username) ?? [];
  return namespace && name ? { kind: 'ServiceAccount', name, namespace } : { kind: 'User', name: username };
}
