import { ASSISTANT, CAPSULE, SECRET } from '../kinds.ts';
import type { ApiClient } from '../runtime/client.ts';
import { apiVersionOf, type KubeObject, pathOf, type Resource } from '../runtime/kube-object.ts';
import type { BackupOptions } from './options.ts';

/** A saved object, with the fields that are needed to create it elsewhere. */
export interface SavedObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly type?: string;
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: unknown;
}

type Listed = KubeObject & Pick<SavedObject, 'type' | 'data' | 'spec'>;

/** The page is small because a Secret may have 1 MiB. */
const PAGE = 100;
const STORED_INPUT = 'platform.space/stored-input';
/** Types of Secrets that the cluster or Helm creates. */
const NOT_OURS = /^(kubernetes\.io\/service-account-token|helm\.sh\/.*)$/;
/** Annotations that the API server writes for a person, or that one person keeps for themselves. */
const PERSONS = ['platform.space/installed-by', 'platform.space/approved-by', 'platform.space/record'];

/**
 * Collects everything of a Space that is stored only in Kubernetes, in the order in which it can be created again: keys
 * and principals, values of stored inputs, Capsules, Assistants. The operator creates everything else from these.
 */
export async function collect(client: ApiClient, options: BackupOptions): Promise<readonly SavedObject[]> {
  const { releaseNamespace, systemNamespace, servicesNamespace } = options;
  const saved: SavedObject[] = [];
  for (const namespace of [servicesNamespace, systemNamespace])
    for await (const secret of listed(client, SECRET, namespace))
      if (!NOT_OURS.test(secret.type ?? '')) saved.push(asSaved(SECRET, namespace, secret));
  for await (const secret of listed(client, SECRET, releaseNamespace, `type=${STORED_INPUT}`))
    saved.push(asSaved(SECRET, releaseNamespace, secret));
  // Objects that are being deleted are left out.
  for (const resource of [CAPSULE, ASSISTANT])
    for await (const object of listed(client, resource, releaseNamespace))
      if (object.metadata.deletionTimestamp === undefined)
        saved.push(asSaved(resource, releaseNamespace, object));
  return saved;
}

async function* listed(
  client: ApiClient,
  resource: Resource,
  namespace: string,
  fieldSelector?: string,
): AsyncGenerator<Listed> {
  let next = '';
  do {
    const page = await client.call<{ items: readonly Listed[]; metadata: { continue?: string } }>({
      method: 'GET',
      path: pathOf(resource, namespace),
      query: {
        limit: String(PAGE),
        ...(fieldSelector === undefined ? {} : { fieldSelector }),
        ...(next === '' ? {} : { continue: next }),
      },
    });
    yield* page.items;
    next = page.metadata.continue ?? '';
  } while (next !== '');
}

function asSaved(resource: Resource, namespace: string, { metadata, type, data, spec }: Listed): SavedObject {
  const annotations = Object.fromEntries(
    Object.entries(metadata.annotations ?? {}).filter(([key]) => !PERSONS.includes(key)),
  );
  return {
    apiVersion: apiVersionOf(resource),
    kind: resource.kind,
    metadata: {
      name: metadata.name,
      namespace,
      ...(metadata.labels === undefined ? {} : { labels: metadata.labels }),
      ...(Object.keys(annotations).length === 0 ? {} : { annotations }),
    },
    ...(type === undefined ? {} : { type }),
    ...(data === undefined ? {} : { data }),
    ...(spec === undefined ? {} : { spec }),
  };
}
