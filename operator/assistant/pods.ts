import type { Context } from '../context.ts';
import { POD, type Pod } from '../kinds.ts';
import { ANNOTATION, workloadSecretName } from '../names.ts';
import { pathOf } from '../runtime/kube-object.ts';

/** Returns addresses of both families if pods have both. Terminating pods count, since they may still send. */
export const addressesOfPods = (pods: readonly Pod[]): readonly string[] =>
  pods.flatMap(({ status: { podIP, podIPs } = {} }) => podIPs?.map(({ ip }) => ip) ?? podIP ?? []).toSorted();

/**
 * Asks the API server itself for pods that are this Assistant's or have its database's URL, which is in a part of a pod
 * that nobody can change: labels and annotations may have been taken off.
 */
export async function findsPods(
  { client }: Context,
  namespace: string,
  id: string,
  uid: string | undefined,
  signal: AbortSignal,
): Promise<boolean> {
  const { items } = await client.call<{ readonly items: readonly Pod[] }>({
    method: 'GET',
    path: pathOf(POD, namespace),
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
