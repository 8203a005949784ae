import { APPLY, type ApiClient, type ApiRequest } from './client.ts';
import { covers } from './covers.ts';
import { digestOf } from './digest.ts';
import { isNotFound, isRefusedWrite, isUnmergeable, WriteRefusedError, withoutValues } from './errors.ts';
import { foreignOwners, keptOwners } from './foreign.ts';
import { apiVersionOf, type KubeObject, pathOf, type Resource } from './kube-object.ts';

/** An object as its owner wants it; fields that it does not name are left to the API server. */
export type Desired = {
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly ownerReferences?: readonly {
      readonly apiVersion: string;
      readonly kind: string;
      readonly name: string;
      readonly uid: string;
    }[];
  };
} & Readonly<Record<string, unknown>>;

/** `restored` means that our wish is unchanged, and that somebody else had changed the object. */
export type Applied = 'unchanged' | 'created' | 'updated' | 'restored';

export interface ApplyOptions {
  readonly client: ApiClient;
  readonly fieldManager: string;
  /** The annotation with the digest of the last applied content, by which a removed field is noticed. */
  readonly digestAnnotation: string;
  readonly beforeWrite?: (verb: string, kind: string) => void;
  /** Called with the object that a write returned, so that stores are current before the watch is. */
  readonly onWritten?: (resource: Resource, object: KubeObject) => void;
}

/**
 * The only way to write to the API server. An `apply` sends nothing if the live object already has the desired content;
 * the other writes always send.
 */
export class Writer {
  readonly #options: ApplyOptions;
  /**
   * Versions that the API server stored differently from what was applied; without them, each reconcile would write
   * again.
   */
  readonly #settled = new Map<string, { readonly digest: string; readonly version: string }>();

  constructor(options: ApplyOptions) {
    this.#options = options;
  }

  /** The number of objects that are remembered as stored differently. */
  get remembered(): number {
    return this.#settled.size;
  }

  /** The desired object with the annotation that records its digest. */
  withDigest(desired: Desired): Desired {
    const { uid: _, ...metadata } = desired.metadata;
    const digest = digestOf({ ...desired, metadata }).slice(0, 16);
    const annotations = { ...desired.metadata.annotations, [this.#options.digestAnnotation]: digest };
    return { ...desired, metadata: { ...desired.metadata, annotations } };
  }

  /** Whether the live object has all of the desired content, so that an apply would send nothing. */
  isApplied(resource: Resource, desired: Desired, live: KubeObject): boolean {
    const wish = this.withDigest(desired);
    const digest = wish.metadata.annotations?.[this.#options.digestAnnotation] ?? '';
    const path = pathOf(resource, desired.metadata.namespace, desired.metadata.name);
    return this.#isAsWished(wish, live) || this.#isSettled(path, digest, wish, live);
  }

  /** All that is wished, and in its spec nothing that somebody else wrote there. */
  #isAsWished(wish: Desired, live: KubeObject): boolean {
    const { fieldManager } = this.#options;
    return covers(wish, live) && !('spec' in wish && foreignOwners(live, fieldManager).length > 0);
  }

  /** Server-side apply of a whole object. `live` is the object as the caller last saw it. */
  async apply(
    resource: Resource,
    desired: Desired,
    live: KubeObject | undefined,
    signal?: AbortSignal,
  ): Promise<Applied> {
    const { digestAnnotation } = this.#options;
    const wish = this.withDigest(desired);
    const digest = wish.metadata.annotations?.[digestAnnotation] ?? '';
    const { name, namespace } = desired.metadata;
    const path = pathOf(resource, namespace, name);
    if (live && this.isApplied(resource, desired, live)) return 'unchanged';
    const body = { apiVersion: apiVersionOf(resource), kind: resource.kind, ...wish };
    const after = await this.#patch<KubeObject>(resource, name, { path, contentType: APPLY, body, signal });
    if (this.#isAsWished(wish, after)) this.#settled.delete(path);
    else {
      const replaced = await this.#replace(resource, body, after, signal);
      this.#settled.set(path, { digest, version: versionOf(replaced) });
    }
    if (!live) return 'created';
    return live.metadata.annotations?.[digestAnnotation] === digest ? 'restored' : 'updated';
  }

  /**
   * Server-side apply of the status only. If the API server cannot merge it into an object that an older schema stored
   * (it answers 500), the status is replaced, so that the object's author still sees it. A condition that somebody else
   * owns, too, stays when an apply leaves it out; a merge patch then replaces the whole list.
   */
  async applyStatus(
    resource: Resource,
    object: KubeObject,
    status: unknown,
    signal?: AbortSignal,
  ): Promise<void> {
    const { name, namespace, uid } = object.metadata;
    const path = pathOf(resource, namespace, name, 'status');
    const patch = (contentType: string, body: unknown) =>
      this.#patch<KubeObject & { readonly status?: unknown }>(resource, name, {
        path,
        contentType,
        body,
        signal,
      });
    const body = {
      apiVersion: apiVersionOf(resource),
      kind: resource.kind,
      metadata: { name, namespace, uid },
    };
    try {
      const after = await patch(APPLY, { ...body, status });
      const { resourceVersion } = after.metadata;
      if (!covers(status, after.status)) await patch(MERGE, { metadata: { uid, resourceVersion }, status });
    } catch (error) {
      if (!isUnmergeable(error)) throw error;
      await patch('application/json-patch+json', [
        { op: 'test', path: '/metadata/uid', value: uid },
        { op: 'add', path: '/status', value: status },
      ]);
    }
  }

  /**
   * A merge patch. With `metadata.resourceVersion` in it, the API server refuses it if the object has changed since.
   */
  async merge<T extends KubeObject>(
    resource: Resource,
    object: KubeObject,
    patch: unknown,
    signal?: AbortSignal,
  ): Promise<T> {
    const { name, namespace } = object.metadata;
    const path = pathOf(resource, namespace, name);
    return this.#patch<T>(resource, name, { path, contentType: MERGE, body: patch, signal });
  }

  /**
   * Creates an object, and fails with AlreadyExists if there is one, so that no existing object is adopted by accident.
   */
  async create<T extends KubeObject>(resource: Resource, object: Desired, signal?: AbortSignal): Promise<T> {
    const created = await this.#send<T>('create', resource, object.metadata.name, {
      method: 'POST',
      path: pathOf(resource, object.metadata.namespace),
      query: { fieldManager: this.#options.fieldManager },
      body: { apiVersion: apiVersionOf(resource), kind: resource.kind, ...object },
      signal,
    });
    this.#written(resource, created);
    return created;
  }

  /** Deletes the object with this UID; an object that is gone already counts as deleted. */
  async remove(resource: Resource, object: KubeObject, signal?: AbortSignal): Promise<void> {
    const { name, namespace, uid } = object.metadata;
    const path = pathOf(resource, namespace, name);
    this.#settled.delete(path);
    // What is in a namespace goes with it.
    if (resource.kind === 'Namespace')
      for (const known of this.#settled.keys())
        if (known.includes(`/namespaces/${name}/`)) this.#settled.delete(known);
    try {
      await this.#send('delete', resource, name, {
        method: 'DELETE',
        path,
        body: { propagationPolicy: 'Background', ...(uid ? { preconditions: { uid } } : {}) },
        signal,
      });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }

  async #patch<T extends KubeObject>(
    resource: Resource,
    name: string,
    request: Omit<ApiRequest, 'method' | 'query'>,
  ): Promise<T> {
    const force: Record<string, string> = request.contentType === APPLY ? { force: 'true' } : {};
    const query = { fieldManager: this.#options.fieldManager, ...force };
    const patched = await this.#send<T>('patch', resource, name, {
      ...request,
      method: 'PATCH',
      query,
    });
    this.#written(resource, patched);
    return patched;
  }

  async #send<T>(verb: string, { kind }: Resource, name: string, request: ApiRequest): Promise<T> {
    this.#options.beforeWrite?.(verb, kind);
    try {
      return await this.#options.client.call<T>(request);
    } catch (error) {
      if (!isRefusedWrite(error)) throw error;
      const said = kind === 'Secret' ? withoutValues(error) : error.said;
      throw new WriteRefusedError(`${verb} ${kind} "${name}"`, error, said);
    }
  }

  #written(resource: Resource, object: KubeObject): void {
    const { deletionTimestamp, finalizers = [] } = object.metadata;
    // Without finalizers, an object with a deletionTimestamp is gone, whatever the answer contains.
    if (deletionTimestamp !== undefined && finalizers.length === 0) return;
    this.#options.onWritten?.(resource, object);
  }

  /**
   * An apply leaves what another manager added to a list or map. Objects that belong to the operator alone are
   * replaced, which removes it.
   */
  async #replace(
    resource: Resource,
    body: Desired,
    live: KubeObject,
    signal?: AbortSignal,
  ): Promise<KubeObject> {
    const { fieldManager } = this.#options;
    const { name, namespace } = body.metadata;
    const { resourceVersion } = live.metadata;
    // Otherwise the managed fields would list an owner of a remaining field for ever, although none of its values is left.
    const managedFields = keptOwners(live, fieldManager);
    const replaced = await this.#send<KubeObject>('update', resource, name, {
      method: 'PUT',
      path: pathOf(resource, namespace, name),
      query: { fieldManager },
      body: { ...body, metadata: { ...body.metadata, resourceVersion, managedFields } },
      signal,
    });
    this.#written(resource, replaced);
    return replaced;
  }

  #isSettled(path: string, digest: string, wish: Desired, live: KubeObject): boolean {
    const settled = this.#settled.get(path);
    return (
      settled?.digest === digest &&
      settled.version === versionOf(live) &&
      covers(wish.metadata, live.metadata)
    );
  }
}

const MERGE = 'application/merge-patch+json';

/** Changes when the desired content changes. The status counts only for kinds without a generation. */
function versionOf(object: KubeObject): string {
  const { uid = '', generation, resourceVersion = '' } = object.metadata;
  return `${uid}/${generation ?? resourceVersion}`;
}
