import * as z from 'zod';
import type { Caller, Kubernetes } from './client.ts';

/** Something that a person may do, or may not. */
export interface Act {
  readonly verb: string;
  readonly group?: string;
  readonly resource: string;
  readonly subresource?: string;
  readonly namespace?: string;
  readonly name?: string;
}

const answer = z.object({ status: z.object({ allowed: z.boolean() }) });

/** Whether the person may, by the API server's own authorizer. An answer that cannot be had is an error, never a yes. */
export async function isAllowed(kubernetes: Kubernetes, caller: Caller, act: Act): Promise<boolean> {
  const body = {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SelfSubjectAccessReview',
    spec: { resourceAttributes: { version: '*', ...act } },
  };
  const path = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';
  return answer.parse(await kubernetes.ask(caller, { method: 'POST', path, body })).status.allowed;
}
