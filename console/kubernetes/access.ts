import * as z from 'zod';
import type { Caller, Kubernetes } from './client.ts';

/** An action that a person may or may not be permitted. */
export interface Act {
  readonly verb: string;
  readonly group?: string;
  readonly resource: string;
  readonly subresource?: string;
  readonly namespace?: string;
  readonly name?: string;
}

const answer = z.object({ status: z.object({ allowed: z.boolean() }) });

/** Whether the API server's authorizer permits the action. Without an answer this throws, and never returns true. */
export async function isAllowed(kubernetes: Kubernetes, caller: Caller, act: Act): Promise<boolean> {
  const body = {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SelfSubjectAccessReview',
    spec: { resourceAttributes: { version: '*', ...act } },
  };
  const path = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';
  return answer.parse(await kubernetes.ask(caller, { method: 'POST', path, body })).status.allowed;
}
