/** Puts policies in the place of others, and knows when they are in force. */
import type { KubeObject } from '../../../../e2e/space/kube-object.ts';
import type { ApiClient } from '../../../../operator/runtime/client.ts';
import { ApiError } from '../../../../operator/runtime/errors.ts';
import { eventually } from '../../../eventually.ts';

const ADMISSION = '/apis/admissionregistration.k8s.io/v1';
const MARK = 'walls-are-in-force';
/** A kind that no policy of the chart matches, however it is changed. */
const ACCOUNTS = '/api/v1/namespaces/default/serviceaccounts';
/** Policies that change objects are read by another part of the API server, which tells of nothing. */
const MUTATING_MS = 3_000;

const pathOf = ({ kind, metadata: { name } }: Pick<KubeObject, 'kind' | 'metadata'>): string =>
  `${collectionOf(kind)}/${name}`;

const collectionOf = (kind: string): string =>
  `${ADMISSION}/${kind
    .toLowerCase()
    .replace(/policy$/, 'policies')
    .replace(/binding$/, 'bindings')}`;

/** What is as a person would write it. */
const written = ({ apiVersion, kind, metadata: { name, labels }, spec }: KubeObject): object => ({
  apiVersion,
  kind,
  metadata: { name, labels },
  spec,
});

export interface PolicyStore {
  /** Every policy and binding that is there. */
  list(kinds: Iterable<string>): Promise<readonly KubeObject[]>;
  /** Has `next` in place of what was put last, which is as it was again. In force when this ends. */
  put(next?: { readonly original: KubeObject; readonly instead: KubeObject | undefined }): Promise<void>;
}

export function openPolicyStore(client: ApiClient): PolicyStore {
  let round = 0;
  let changed: KubeObject | undefined;

  async function write(object: KubeObject): Promise<void> {
    const path = pathOf(object);
    const there = await client.call<KubeObject>({ method: 'GET', path }).catch(absent);
    if (there === undefined)
      await client.call({ method: 'POST', path: collectionOf(object.kind), body: written(object) });
    else {
      const { metadata, ...rest } = written(object) as KubeObject;
      const { resourceVersion } = there.metadata as { resourceVersion?: string };
      await client.call({
        method: 'PUT',
        path,
        body: { ...rest, metadata: { ...metadata, resourceVersion } },
      });
    }
  }

  /** What is written last is known last, of policies and of bindings. */
  async function inForce(): Promise<void> {
    round += 1;
    const text = `round ${round}`;
    for (const object of markOf(round, text)) await write(object);
    const body = { metadata: { generateName: MARK, labels: { round: String(round) } } };
    const asks = () => client.call({ method: 'POST', path: ACCOUNTS, body, query: { dryRun: 'All' } });
    const says = () =>
      asks().then(
        () => false,
        (error: unknown) => String(error).includes(text),
      );
    await eventually(says, { what: 'the written policies are in force' });
  }

  return {
    async list(kinds) {
      const found: KubeObject[] = [];
      for (const kind of kinds) {
        const { items } = await client.call<{ items: readonly KubeObject[] }>({
          method: 'GET',
          path: collectionOf(kind),
        });
        found.push(
          ...items.map((item) => ({ ...item, apiVersion: 'admissionregistration.k8s.io/v1', kind })),
        );
      }
      return found;
    },
    async put(next) {
      if (changed !== undefined) await write(changed);
      const kinds = [changed?.kind, next?.original.kind];
      if (next !== undefined) {
        if (next.instead === undefined)
          await client.call({ method: 'DELETE', path: pathOf(next.original), body: {} });
        else await write(next.instead);
      }
      changed = next?.original;
      await inForce();
      if (kinds.some((kind) => kind?.startsWith('Mutating')))
        await new Promise((resolve) => setTimeout(resolve, MUTATING_MS));
    },
  };
}

function absent(error: unknown): undefined {
  if (error instanceof ApiError && error.status === 404) return undefined;
  throw error;
}

/** Refuses an account of this round, and by its message tells which. */
function markOf(round: number, text: string): readonly KubeObject[] {
  const base = { apiVersion: 'admissionregistration.k8s.io/v1', metadata: { name: MARK } };
  const accounts = {
    apiGroups: [''],
    apiVersions: ['*'],
    resources: ['serviceaccounts'],
    operations: ['CREATE'],
  };
  return [
    {
      ...{ ...base, kind: 'ValidatingAdmissionPolicy' },
      spec: {
        failurePolicy: 'Fail',
        matchConstraints: { resourceRules: [accounts] },
        validations: [{ expression: 'false', message: text }],
      },
    },
    {
      ...{ ...base, kind: 'ValidatingAdmissionPolicyBinding' },
      spec: {
        policyName: MARK,
        validationActions: ['Deny'],
        matchResources: { objectSelector: { matchLabels: { round: String(round) } } },
      },
    },
  ];
}
