import type * as kinds from '../../operator/kinds.ts';
import { CAPSULE, RESOURCE_QUOTA } from '../../operator/kinds.ts';
import { pathOf } from '../../operator/runtime/kube-object.ts';
import type { TestSpace } from '../../operator/testing/space.ts';
import type { TestEnvironment } from '../../operator/testing/test-environment.ts';
import { follow } from '../operator/population.ts';

/** A Capsule outside the population. */
export const LIVE = 'live';

/** Returns a function that changes the quota of a Capsule outside the population and returns the milliseconds until its namespace has it. */
export async function liveChanges(
  { server: { client } }: TestEnvironment,
  space: TestSpace,
  signal: AbortSignal,
): Promise<() => Promise<number>> {
  const quotas = follow<kinds.ResourceQuota>(client, RESOURCE_QUOTA, space.namespaceOf(LIVE), signal);
  await quotas.synced;
  let pods = 20;
  let waiting: { readonly pods: string; readonly served: () => void } | undefined;
  quotas.store.onChange(({ now }) => {
    if (now?.spec?.hard?.['pods'] === waiting?.pods) waiting?.served();
  });
  return async () => {
    pods = pods === 20 ? 30 : 20;
    const { promise, resolve } = Promise.withResolvers<void>();
    waiting = { pods: String(pods), served: resolve };
    const asked = performance.now();
    await client.call({
      method: 'PATCH',
      path: pathOf(CAPSULE, space.names.namespace, LIVE),
      contentType: 'application/merge-patch+json',
      body: { spec: { quota: { pods } } },
    });
    await promise;
    return performance.now() - asked;
  };
}
