import { APPLY, type ApiClient } from '../runtime/client.ts';
import { isNotFound } from '../runtime/errors.ts';
import { type KubeObject, pathOf, type Resource } from '../runtime/kube-object.ts';

const core = (plural: string, kind: string): Resource => ({
  group: '',
  version: 'v1',
  plural,
  kind,
  namespaced: true,
});
const RESOURCES = {
  Secret: core('secrets', 'Secret'),
  ConfigMap: core('configmaps', 'ConfigMap'),
  PersistentVolumeClaim: core('persistentvolumeclaims', 'PersistentVolumeClaim'),
} as const;

type Kind = keyof typeof RESOURCES;

/** An object as it was read, with its data decoded. */
export interface Stored {
  readonly annotations: Readonly<Record<string, string>>;
  readonly data: Readonly<Record<string, string>>;
  readonly resourceVersion: string;
}

/** The desired content of an object; null removes a field. */
export interface Wish {
  readonly type?: string;
  readonly data?: Readonly<Record<string, string | null>>;
  readonly annotations?: Readonly<Record<string, string | null>>;
  readonly labels?: Readonly<Record<string, string>>;
}

/**
 * What the program of keys does in the cluster: it reads, creates and changes objects by name, and changes only the
 * version that it read.
 */
export interface Cluster {
  read(kind: Kind, namespace: string, name: string): Promise<Stored | undefined>;
  /** @throws ApiError 409 if the object exists by now with other contents */
  create(kind: Kind, namespace: string, name: string, wish: Wish): Promise<void>;
  /** @throws ApiError 409 if somebody changed the object after it was read */
  change(kind: Kind, namespace: string, name: string, stored: Stored, wish: Wish): Promise<void>;
}

/**
 * RBAC can restrict creation by name only if the name is in the path, so objects are created by server-side apply. That
 * would also change an existing object, but not fields of another manager: `run` is the manager's name of this run
 * only.
 */
export function clusterOf(client: ApiClient, run: string): Cluster {
  const patch = (kind: Kind, namespace: string, name: string, contentType: string, body: object) =>
    client.call<unknown>({
      method: 'PATCH',
      path: pathOf(RESOURCES[kind], namespace, name),
      query: { fieldManager: run },
      contentType,
      body,
    });
  return {
    async read(kind, namespace, name) {
      try {
        const path = pathOf(RESOURCES[kind], namespace, name);
        const read = await client.call<KubeObject & { data?: Record<string, string> }>({
          method: 'GET',
          path,
        });
        const { annotations = {}, resourceVersion = '' } = read.metadata;
        const data = Object.entries(read.data ?? {}).map(([key, text]) => [
          key,
          kind === 'Secret' ? Buffer.from(text, 'base64').toString('utf8') : text,
        ]);
        return { annotations, data: Object.fromEntries(data), resourceVersion };
      } catch (error) {
        if (isNotFound(error)) return undefined;
        throw error;
      }
    },
    async create(kind, namespace, name, { type, data, annotations, labels }) {
      await patch(kind, namespace, name, APPLY, {
        apiVersion: 'v1',
        kind,
        metadata: { name, namespace, annotations, labels },
        ...(type === undefined ? {} : { type }),
        data: encoded(kind, data),
      });
    },
    async change(kind, namespace, name, { resourceVersion }, { data, annotations, labels }) {
      await patch(kind, namespace, name, 'application/merge-patch+json', {
        metadata: { resourceVersion, annotations, labels },
        data: encoded(kind, data),
      });
    },
  };
}

/** Encodes the data. `stringData` has no owner, so that no apply of it would conflict. */
function encoded(kind: Kind, data: Wish['data']): Wish['data'] {
  if (kind !== 'Secret' || data === undefined) return data;
  const entries = Object.entries(data).map(([key, text]) => [
    key,
    text === null ? null : Buffer.from(text).toString('base64'),
  ]);
  return Object.fromEntries(entries);
}
