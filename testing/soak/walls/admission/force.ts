/** Replaces policies, and waits until the replacements are in force. */
import type { KubeObject } from '../../../../e2e/space/kube-object.ts';
import type { ApiClient } from '../../../../operator/runtime/client.ts';
import { ApiError } from '../../../../operator/runtime/errors.ts';
import { eventually } from '../../../eventually.ts';

const ADMISSION = '/apis/admissionregistration.k8s.io/v1';
const MARK = 'walls-are-in-force';
/** A kind that no policy of the chart matches, however it is changed. */
const ACCOUNTS = '/api/v1/namespaces/default/serviceaccounts';
/** Mutating policies are read by another part of the API server, which does not show when it has done so. */
const MUTATING_MS = 3_000;

const pathOf = ({ kind, metadata: { name } }: Pick<KubeObject, 'kind' | 'metadata'>): string =>
  `${collectionOf(kind)}/${name}`;

const collectionOf = (kind: string): string =>
  `${ADMISSION}/${kind
    .toLowerCase()
    .replace(/policy$/, 'policies')
    .replace(/binding$/, 'bindings')}`;

/** An object as a person would write it. */
const written = ({ apiVersion, kind, metadata: { name, labels }, spec }: KubeObject): object => ({
  apiVersion,
  kind,
  metadata: { name, labels },
  spec,
});

export interface PolicyStore {
  /** Every existing policy and binding. */
  list(kinds: Iterable<string>): Promise<readonly KubeObject[]>;
  /** Restores the object that was replaced last, and replaces `next.original`; resolves when that is in force. */
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

  /** The API server reads policies and bindings in the order of their writes, so a marker that is written last shows that it knows all. */
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

/** A policy that refuses accounts, and whose message names the round. */
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
