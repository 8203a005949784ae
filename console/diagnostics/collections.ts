import type * as z from 'zod';
import type { Act } from '../kubernetes/access.ts';
import { apiPath } from '../kubernetes/client.ts';
import type { SpaceNames } from '../visit.ts';
import * as fields from './fields.ts';

/** Objects of one kind in one namespace, which are one file of the archive. */
export interface Collection {
  readonly file: string;
  readonly act: Omit<Act, 'verb'>;
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly item: z.ZodType;
}

interface Kind {
  readonly file: string;
  readonly group?: string;
  readonly api: string;
  readonly resource: string;
  readonly item: z.ZodType;
}

const PODS: Kind = { file: 'pods', api: '/api/v1', resource: 'pods', item: fields.pod };
const EVENTS: Kind = {
  file: 'events',
  group: 'events.k8s.io',
  api: '/apis/events.k8s.io/v1',
  resource: 'events',
  item: fields.event,
};
const DEPLOYMENTS: Kind = {
  file: 'deployments',
  group: 'apps',
  api: '/apis/apps/v1',
  resource: 'deployments',
  item: fields.deployment,
};
const WALLS: Kind = {
  file: 'networkpolicies',
  group: 'networking.k8s.io',
  api: '/apis/networking.k8s.io/v1',
  resource: 'networkpolicies',
  item: fields.nameAlone,
};
const QUOTAS: Kind = {
  file: 'resourcequotas',
  api: '/api/v1',
  resource: 'resourcequotas',
  item: fields.quota,
};
const OURS = { group: 'platform.space', api: '/apis/platform.space/v1' };
const CAPSULES: Kind = { ...OURS, file: 'capsules', resource: 'capsules', item: fields.capsule };
const ASSISTANTS: Kind = { ...OURS, file: 'assistants', resource: 'assistants', item: fields.assistant };

const within = (kind: Kind, namespace: string): Collection => ({
  file: `${kind.file}/${namespace}.json`,
  act: { ...(kind.group === undefined ? {} : { group: kind.group }), resource: kind.resource, namespace },
  path: `${kind.api}${apiPath`/namespaces/${namespace}`}/${kind.resource}`,
  item: kind.item,
});

const cluster = (
  file: string,
  api: string,
  group: string | undefined,
  resource: string,
  item: z.ZodType,
): Collection => ({
  file: `${file}.json`,
  act: { ...(group === undefined ? {} : { group }), resource },
  path: `${api}/${resource}`,
  item,
});

const ADMISSION = 'admissionregistration.k8s.io';
const admission = (resource: string) =>
  cluster(resource, `/apis/${ADMISSION}/v1`, ADMISSION, resource, fields.nameAlone);

/** Objects in the Space's own namespaces, and of the cluster. */
export const collectionsOf = (names: SpaceNames): readonly Collection[] => [
  within(CAPSULES, names.namespace),
  within(ASSISTANTS, names.namespace),
  ...[names.namespace, names.systemNamespace, names.servicesNamespace].map((one) => within(EVENTS, one)),
  ...[names.systemNamespace, names.servicesNamespace].flatMap((one) =>
    [DEPLOYMENTS, PODS, WALLS].map((kind) => within(kind, one)),
  ),
  cluster('nodes', '/api/v1', undefined, 'nodes', fields.node),
  cluster('runtimeclasses', '/apis/node.k8s.io/v1', 'node.k8s.io', 'runtimeclasses', fields.runtimeClass),
  admission('validatingadmissionpolicies'),
  admission('validatingadmissionpolicybindings'),
];

/** Objects in the namespace of a Capsule. */
export const collectionsIn = (namespace: string): readonly Collection[] =>
  [PODS, EVENTS, WALLS, QUOTAS].map((kind) => within(kind, namespace));
