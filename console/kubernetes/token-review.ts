import type { Secret } from '@space/broker-kit';
import * as z from 'zod';
import type { Kubernetes } from './client.ts';

const answer = z.object({
  status: z.object({
    authenticated: z.boolean().optional(),
    // For an invalid token the field exists and is empty.
    user: z.object({ username: z.string().max(512).optional() }).optional(),
  }),
});

/**
 * The token's user according to the API server; undefined if the token is invalid. This is the only request that the
 * console makes for itself.
 */
export async function reviewToken(
  kubernetes: Kubernetes,
  own: Secret<string>,
  token: Secret<string>,
): Promise<string | undefined> {
  const body = {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenReview',
    spec: { token: token.reveal() },
  };
  const path = '/apis/authentication.k8s.io/v1/tokenreviews';
  const { status } = answer.parse(await kubernetes.ask({ token: own }, { method: 'POST', path, body }));
  return status.authenticated === true ? status.user?.username || undefined : undefined;
}
