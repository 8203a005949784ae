import { randomBytes } from 'node:crypto';
import { POD, type Pod } from './kinds.ts';
import { LABEL } from './names.ts';
import type { ApiClient } from './runtime/client.ts';
import { type KubeObject, pathOf } from './runtime/kube-object.ts';
import type { Change } from './runtime/store.ts';

const SEPARATOR = '_';

/** Identifies the holder of the Lease: the pod's name and UID, as in its token, and one process of the pod. */
export function holderOf(pod: { readonly name: string; readonly uid: string }): string {
  return [pod.name, pod.uid, randomBytes(6).toString('hex')].join(SEPARATOR);
}

/**
 * Returns a test whether a holder can no longer write, which asks the API server and not a store. The token of a
 * deleted pod is not accepted; and a pod runs one operator container at a time, so an earlier process of this pod is
 * dead.
 */
export function podIsGone(client: ApiClient, namespace: string, own: { readonly uid: string }) {
  return async (holder: string, signal: AbortSignal): Promise<boolean> => {
    const [name, uid] = holder.split(SEPARATOR);
    if (!name || !uid) return false;
    if (uid === own.uid) return true;
    const { items } = await client.call<{ readonly items: readonly KubeObject[] }>({
      method: 'GET',
      path: pathOf(POD, namespace),
      query: { fieldSelector: `metadata.name=${name}` },
      signal,
    });
    return items.every(({ metadata }) => metadata.uid !== uid);
  };
}

/** Whether by this change a pod of the operator, which may be the holder, is asked to end or is gone. */
export function isCandidateEnding(systemNamespace: string, { before, now }: Change<Pod>): boolean {
  if (before === undefined || before.metadata.deletionTimestamp !== undefined) return false;
  const { namespace, labels } = before.metadata;
  const isEnding = now === undefined || now.metadata.deletionTimestamp !== undefined;
  return isEnding && namespace === systemNamespace && labels?.[LABEL.component] === 'operator';
}
