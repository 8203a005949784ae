import { type Assistant, type Capsule, NEVER } from '@space/manifests';
import * as z from 'zod';
import type { Visit } from '../visit.ts';
import { apiPath, ifAllowed } from './client.ts';
import type { Rows } from './tables.ts';

/** The part of `status` that the console shows; an older operator may have left out any field. */
const condition = z.object({
  type: z.string(),
  status: z.string(),
  reason: z.string().default(''),
  message: z.string().default(''),
  lastTransitionTime: z.string().default(''),
});
export type Condition = z.infer<typeof condition>;
/** Without the one that an object has before an operator has looked at it. */
const conditions = z
  .array(condition)
  .default([])
  .transform((all) => all.filter(({ lastTransitionTime }) => lastTransitionTime !== NEVER));

export const metadata = z.object({
  name: z.string(),
  uid: z.string().default(''),
  resourceVersion: z.string().default(''),
  annotations: z.record(z.string(), z.string()).default({}),
  creationTimestamp: z.string().optional(),
  managedFields: z
    .array(
      z.object({
        manager: z.string().default(''),
        time: z.string().default(''),
        subresource: z.string().optional(),
        fieldsV1: z
          .object({
            'f:spec': z.record(z.string(), z.unknown()).optional(),
            'f:metadata': z
              .object({ 'f:annotations': z.record(z.string(), z.unknown()).optional() })
              .optional(),
          })
          .optional(),
      }),
    )
    .default([]),
});
export type Metadata = z.infer<typeof metadata>;

/** Quantities. */
const usage = z.object({ database: z.string().optional(), storage: z.string().optional() });

const capsule = z.object({
  metadata,
  spec: z
    .custom<Partial<Capsule['spec']>>((value) => typeof value === 'object' && value !== null)
    .default({}),
  status: z
    .object({
      namespace: z.string().optional(),
      assistants: z.object({ total: z.number(), ready: z.number() }).optional(),
      usage: usage.optional(),
      conditions,
    })
    .default({ conditions: [] }),
});
export type CapsuleView = z.infer<typeof capsule>;

const assistant = z.object({
  metadata,
  spec: z.custom<Partial<Assistant['spec']>>((value) => typeof value === 'object' && value !== null),
  status: z
    .object({
      /** The manifest that was accepted last. */
      manifest: z.object({ id: z.string() }).optional(),
      usage: usage.optional(),
      conditions,
    })
    .default({ conditions: [] }),
});
export type AssistantView = z.infer<typeof assistant>;

/** The id that its pods have: while a change of the id is refused, they have the former one. */
export const idOf = ({ spec, status }: Pick<AssistantView, 'spec' | 'status'>): string | undefined =>
  status.manifest?.id ?? spec.manifest?.platform.id;

const events = z.object({
  items: z.array(
    z.object({
      type: z.string().default(''),
      reason: z.string().default(''),
      note: z.string().default(''),
      eventTime: z.string().nullish(),
      regarding: z.object({ uid: z.string().optional() }).default({}),
      /** Its repetitions. */
      series: z.object({ count: z.number(), lastObservedTime: z.string() }).nullish(),
      metadata: z.object({ creationTimestamp: z.string().nullish() }),
    }),
  ),
});
export type EventView = z.infer<typeof events>['items'][number];

type From = Pick<Visit, 'ask' | 'names'>;
type Lists = Pick<Visit, 'list' | 'names'>;

export const capsulesPath = (namespace: string) =>
  apiPath`/apis/platform.space/v1/namespaces/${namespace}/capsules`;
export const assistantsPath = (namespace: string) =>
  apiPath`/apis/platform.space/v1/namespaces/${namespace}/assistants`;
export const capsulePath = (namespace: string, name: string) =>
  apiPath`/apis/platform.space/v1/namespaces/${namespace}/capsules/${name}`;
export const assistantPath = (namespace: string, name: string) =>
  apiPath`/apis/platform.space/v1/namespaces/${namespace}/assistants/${name}`;

export const listCapsules = ({ list, names }: Lists): Promise<Rows> => list(capsulesPath(names.namespace));

export const listAssistants = ({ list, names }: Lists): Promise<Rows> =>
  list(assistantsPath(names.namespace));

export const getCapsule = async ({ ask, names }: From, name: string): Promise<CapsuleView> =>
  capsuleIn(await ask({ path: capsulePath(names.namespace, name) }));

export const capsuleIn = (answer: unknown): CapsuleView => capsule.parse(answer);

/** A Capsule that the operator has reconciled; undefined if there is none, or the person may not see any. */
export async function anyCapsule({ ask, names }: From): Promise<CapsuleView | undefined> {
  const some = { path: capsulesPath(names.namespace), query: { limit: '10' } };
  const answer = await ifAllowed(ask(some));
  if (answer === undefined) return undefined;
  const { items } = z.object({ items: z.array(capsule) }).parse(answer);
  return items.find(({ status }) => status.conditions.some(({ type }) => type === 'SandboxReady'));
}

export const getAssistant = async ({ ask, names }: From, name: string): Promise<AssistantView> =>
  assistant.parse(await ask({ path: assistantPath(names.namespace, name) }));

/** Events about one object, the last one first. */
export async function listEvents(
  { ask, names }: From,
  kind: string,
  name: string,
): Promise<readonly EventView[]> {
  const path = apiPath`/apis/events.k8s.io/v1/namespaces/${names.namespace}/events`;
  const about = `regarding.kind=${kind},regarding.name=${name}`;
  const { items } = events.parse(await ask({ path, query: { limit: '500', fieldSelector: about } }));
  return items.sort((a, b) => (lastTimeOf(a) < lastTimeOf(b) ? 1 : -1));
}

const toSecond = (time: string): string => time.replace(/\.\d+Z$/, 'Z');

export const firstTimeOf = ({ eventTime, metadata: { creationTimestamp } }: EventView): string =>
  toSecond(eventTime ?? creationTimestamp ?? '');

export const lastTimeOf = (event: EventView): string =>
  event.series == null ? firstTimeOf(event) : toSecond(event.series.lastObservedTime);
