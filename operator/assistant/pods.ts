import type { Context } from '../context.ts';
import { POD, type Pod } from '../kinds.ts';
import { ANNOTATION, capsuleNamespace, workloadSecretName } from '../names.ts';
import { pathOf } from '../runtime/kube-object.ts';
import { pair, type Stores } from '../stores.ts';
import type { Leaving } from './identity.ts';

/** The pods of the Assistant with this UID, by their labels and the annotation of their owner. */
export const podsOf = (
  { pods }: Pick<Stores, 'pods'>,
  { uid, capsule, id }: { readonly uid: string | undefined; readonly capsule: string; readonly id: string },
): readonly Pod[] =>
  pods
    .by('assistant', pair(capsule, id))
    .filter(({ metadata }) => metadata.annotations?.[ANNOTATION.owner] === uid);

const ENDED = new Set(['Failed', 'Succeeded']);

/** Whether none of its containers runs any more; the network may have given its address to another pod by then. */
export const hasEnded = ({ status }: Pod): boolean => ENDED.has(status?.phase ?? '');

/**
 * IP addresses of the pods that have not ended, of both families if they have both. Terminating pods count, since they
 * may still send.
 */
export const addressesOfPods = (pods: readonly Pod[]): readonly string[] =>
  pods
    .filter((pod) => !hasEnded(pod))
    .flatMap(({ status: { podIP, podIPs } = {} }) => podIPs?.map(({ ip }) => ip) ?? podIP ?? [])
    .toSorted();

/**
 * Whether the API server has pods that belong to this Assistant or mount its database's URL. The mount is in the
 * immutable part of a pod, while labels and annotations may have been removed.
 */
export async function findsPods(
  { client, names }: Context,
  { assistant, id }: Leaving,
  signal: AbortSignal,
): Promise<boolean> {
  const { uid } = assistant.metadata;
  const { items } = await client.call<{ readonly items: readonly Pod[] }>({
    method: 'GET',
    path: pathOf(POD, capsuleNamespace(names.space, assistant.spec.capsule)),
    signal,
  });
  const url = workloadSecretName(id);
  return items.some(
    ({ metadata, spec }) =>
      metadata.annotations?.[ANNOTATION.owner] === uid ||
      spec?.containers?.some(({ env }) =>
        env?.some(({ valueFrom }) => valueFrom?.secretKeyRef?.name === url),
      ),
  );
}
