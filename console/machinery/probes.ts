import * as z from 'zod';
import { apiPath } from '../kubernetes/client.ts';
import { type Listed, mapped, mayList } from './may-list.ts';
import type { Reader } from './reader.ts';

/** A pod in which the operator tests a node. */
export interface Probe {
  readonly name: string;
  readonly asks: 'the sandbox' | 'the network policies';
  /** Empty while it is not scheduled. */
  readonly node: string;
  readonly verdict: 'passed' | 'failed' | 'running';
  /** The message with which it ended, if there is one. */
  readonly found: string;
  readonly at: string;
}

const COMPONENT = 'platform.space/component';
const ASKS = { 'sandbox-probe': 'the sandbox', 'network-probe': 'the network policies' } as const;

const ended = z.object({
  message: z.string().optional(),
  reason: z.string().optional(),
  finishedAt: z.string().nullish(),
});
const pod = z.object({
  metadata: z.object({
    name: z.string(),
    creationTimestamp: z.string().default(''),
    labels: z.record(z.string(), z.string()).default({}),
    annotations: z.record(z.string(), z.string()).default({}),
  }),
  spec: z.object({ nodeName: z.string().optional() }).default({}),
  status: z
    .object({
      phase: z.string().optional(),
      reason: z.string().optional(),
      message: z.string().optional(),
      containerStatuses: z
        .array(z.object({ state: z.object({ terminated: ended.optional() }).default({}) }))
        .nullish(),
    })
    .default({}),
});

/** The probes of sandbox and network policies; undefined if the person may not see pods of the system namespace. */
export async function probesOf(reader: Reader): Promise<Listed<Probe> | undefined> {
  const path = apiPath`/api/v1/namespaces/${reader.names.systemNamespace}/pods`;
  const labelSelector = `${COMPONENT} in (${Object.keys(ASKS).join(',')})`;
  return mapped(await mayList(reader, pod, { path, query: { labelSelector } }), probeOf);
}

function probeOf({ metadata, spec, status }: z.infer<typeof pod>): Probe {
  const end = status.containerStatuses?.[0]?.state.terminated;
  const { phase } = status;
  return {
    name: metadata.name,
    asks: metadata.labels[COMPONENT] === 'network-probe' ? ASKS['network-probe'] : ASKS['sandbox-probe'],
    node: spec.nodeName ?? metadata.annotations['platform.space/node'] ?? '',
    verdict: phase === 'Succeeded' ? 'passed' : phase === 'Failed' ? 'failed' : 'running',
    found: (end?.message ?? status.message ?? end?.reason ?? status.reason ?? '').trim(),
    at: end?.finishedAt ?? metadata.creationTimestamp,
  };
}
