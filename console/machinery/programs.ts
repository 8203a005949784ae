import * as z from 'zod';
import { apiPath } from '../kubernetes/client.ts';
import { type Listed, mapped, mayList } from './may-list.ts';
import type { Reader } from './reader.ts';

/** A Deployment or StatefulSet of the Space. */
export interface Program {
  readonly kind: 'Deployment' | 'StatefulSet';
  readonly namespace: string;
  readonly name: string;
  readonly ready: number;
  readonly wanted: number;
  /** The chart's version, and the images. */
  readonly version: string;
  readonly images: readonly string[];
  /** Since when it has not been available, if Kubernetes knows that. */
  readonly since: string;
}

const workload = z.object({
  metadata: z.object({ name: z.string(), labels: z.record(z.string(), z.string()).default({}) }),
  spec: z.object({
    replicas: z.number().default(1),
    template: z.object({
      spec: z.object({ containers: z.array(z.object({ image: z.string().default('') })) }),
    }),
  }),
  status: z
    .object({
      readyReplicas: z.number().default(0),
      conditions: z
        .array(z.object({ type: z.string(), status: z.string(), lastTransitionTime: z.string().default('') }))
        .nullish(),
    })
    .default({ readyReplicas: 0 }),
});

const KINDS = [
  ['Deployment', 'deployments'],
  ['StatefulSet', 'statefulsets'],
] as const;

/** Programs of both namespaces of the Space; undefined if the person may not see those of either. */
export async function programsOf(reader: Reader): Promise<Listed<Program> | undefined> {
  const { systemNamespace, servicesNamespace } = reader.names;
  const lists = await Promise.all(
    [systemNamespace, servicesNamespace].flatMap((namespace) =>
      KINDS.map(async ([kind, plural]) => {
        const path = apiPath`/apis/apps/v1/namespaces/${namespace}/${plural}`;
        return mapped(await mayList(reader, workload, { path }), (item) => programOf(kind, namespace, item));
      }),
    ),
  );
  const seen = lists.filter((list) => list !== undefined);
  if (seen.length === 0) return undefined;
  return { items: seen.flatMap(({ items }) => items), isCut: seen.some(({ isCut }) => isCut) };
}

function programOf(
  kind: Program['kind'],
  namespace: string,
  { metadata, spec, status }: z.infer<typeof workload>,
): Program {
  const away = status.conditions?.find(({ type, status: is }) => type === 'Available' && is === 'False');
  return {
    ...{ kind, namespace, name: metadata.name },
    ...{ ready: status.readyReplicas, wanted: spec.replicas },
    version: metadata.labels['app.kubernetes.io/version'] ?? '',
    images: spec.template.spec.containers.map(({ image }) => image),
    since: away?.lastTransitionTime ?? '',
  };
}
