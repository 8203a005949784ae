import { eventually } from '../../testing/eventually.ts';
import type { ApiClient } from '../runtime/client.ts';

export const DEFINITIONS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';

interface Definition {
  readonly spec: { readonly versions: readonly { readonly schema: unknown }[] };
}

/** Lets a write through that the schema of its kind would refuse, as releases before and after this one may have. */
export async function underAnySchema(
  client: ApiClient,
  plural: string,
  write: () => Promise<unknown>,
): Promise<void> {
  const path = `${DEFINITIONS}/${plural}.platform.space`;
  const whole = await client.call<Definition>({ method: 'GET', path });
  const replace = (schema: unknown) =>
    client.call({
      method: 'PATCH',
      path,
      contentType: 'application/json-patch+json',
      body: [{ op: 'replace', path: '/spec/versions/0/schema', value: schema }],
    });
  await replace({ openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } });
  try {
    await eventually(() => write().then(() => true), { what: 'it is stored' });
  } finally {
    await replace(whole.spec.versions[0]?.schema);
    await eventually(() => refusesText(client, plural), { what: 'the schema is in force again' });
  }
}

/** Whether the schema in force demands an object for the spec. The API server begins to use another one a moment later. */
async function refusesText(client: ApiClient, plural: string): Promise<boolean> {
  const body = {
    apiVersion: 'platform.space/v1',
    kind: plural === 'capsules' ? 'Capsule' : 'Assistant',
    metadata: { name: 'of-no-schema' },
    spec: 'text',
  };
  const path = `/apis/platform.space/v1/namespaces/default/${plural}`;
  return client.call({ method: 'POST', path, query: { dryRun: 'All' }, body }).then(
    () => false,
    (error: unknown) => String(error).includes('must be of type object'),
  );
}
