import { type Agent, request } from 'undici';
import type { TestEnvironment } from '../../console/testing/environment.ts';

const LISTS = ['capsules', 'assistants'].map((plural) => `/apis/platform.space/v1/namespaces/home/${plural}`);

/** Requests the lists from the API server as the console does, as tables and in pages. */
export async function readLists({ policyServer, tokens }: TestEnvironment, dispatcher: Agent): Promise<void> {
  const headers = {
    authorization: `Bearer ${tokens.admin}`,
    accept: 'application/json;as=Table;v=v1;g=meta.k8s.io',
  };
  for (const path of LISTS)
    for (let next = ''; ; ) {
      const query = new URLSearchParams({ limit: '500', ...(next === '' ? {} : { continue: next }) });
      const answer = await request(`${policyServer.server.url}${path}?${query}`, { headers, dispatcher });
      const { metadata } = (await answer.body.json()) as { metadata?: { continue?: string } };
      next = metadata?.continue ?? '';
      if (next === '') break;
    }
}
