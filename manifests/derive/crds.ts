import { NEVER } from '../resources.ts';
import { assistantSpec } from '../rules/assistant.ts';
import { capsuleSpec } from '../rules/capsule.ts';
import type { ObjectRule } from '../rules/rule.ts';
import { type Structural, structural } from './structural.ts';

const GROUP = 'platform.space';

const integer: Structural = { type: 'integer', format: 'int64' };
const text: Structural = { type: 'string' };
const said = (description: string, of: Structural = text): Structural => ({ ...of, description });
const OBSERVED =
  'The generation of the object that the operator last looked at; -1 before it has looked at any.';

/**
 * The status of an object that no operator has looked at yet. It is of no generation, and so not current: without a status,
 * tools that follow the API conventions (kstatus: Argo CD, Flux, helm --wait) take it for done. It also says why to a person
 * who has applied it in a namespace without a Space, where nobody else would.
 */
const UNSEEN = {
  observedGeneration: -1,
  conditions: [
    {
      type: 'Ready',
      status: 'Unknown',
      reason: 'Waiting',
      message:
        'No operator has looked at it yet. An operator only looks at objects in the namespace of a Space’s release: see whether there is one, and whether its operator runs.',
      lastTransitionTime: NEVER,
    },
  ],
};

/** Conditions as in the Kubernetes API conventions. */
const conditions: Structural = {
  type: 'array',
  description:
    'What holds of the object. Ready sums up the others: it has the reason and the message of the first that is False, else of the first that is Unknown. Stalled is there only while nothing but another spec helps.',
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': ['type'],
  items: {
    type: 'object',
    required: ['type', 'status', 'reason', 'message', 'lastTransitionTime'],
    properties: {
      type: said('What the condition is about, such as Ready or DatabaseReady.', {
        type: 'string',
        maxLength: 316,
      }),
      status: said('Whether it holds: True, False or Unknown.', {
        type: 'string',
        enum: ['True', 'False', 'Unknown'],
      }),
      observedGeneration: said('The generation of the object that this was found of.', {
        ...integer,
        minimum: 0,
      }),
      lastTransitionTime: said('When the condition last became True, False or Unknown.', {
        type: 'string',
        format: 'date-time',
      }),
      reason: said('Why, in one word that programs can compare.', {
        type: 'string',
        minLength: 1,
        maxLength: 1024,
      }),
      message: said('Why, and what to do, for people.', { type: 'string', maxLength: 32_768 }),
    },
  },
};

const usage = (whose: string): Structural =>
  said('What is used, in coarse steps.', {
    type: 'object',
    properties: {
      database: said(`Bytes of ${whose} databases, as a quantity.`),
      storage: said(`Bytes of ${whose} objects, as a quantity.`),
    },
  });

const capsuleStatus: Structural = {
  type: 'object',
  default: UNSEEN,
  properties: {
    observedGeneration: said(OBSERVED, integer),
    namespace: said('The namespace in which the pods of its Assistants run.'),
    assistants: said('How many Assistants name this Capsule.', {
      type: 'object',
      properties: { total: said('All of them.', integer), ready: said('Those that are Ready.', integer) },
    }),
    usage: usage("the Capsule's"),
    conditions,
  },
};

const assistantStatus: Structural = {
  type: 'object',
  default: UNSEEN,
  properties: {
    observedGeneration: said(OBSERVED, integer),
    capsule: said('The Capsule that it was accepted in, which has all that belongs to it.'),
    manifest: said('The manifest that was accepted last.', {
      type: 'object',
      properties: {
        id: said('Its platform.id.'),
        version: said('Its platform.version.'),
        digest: said('Its digest: sha256: and the 64 hex digits over its canonical JSON.'),
      },
    }),
    deletionPolicy: said('What becomes of its data when it is deleted: Drop or Retain.'),
    usage: usage("the Assistant's"),
    conditions,
  },
};

interface Column {
  readonly name: string;
  readonly type: 'string' | 'integer' | 'date';
  readonly jsonPath: string;
  readonly priority?: 1;
}

const condition = (
  name: string,
  type: string,
  field: 'status' | 'reason' | 'message' | 'lastTransitionTime',
  wide = false,
): Column => ({
  name,
  type: 'string',
  jsonPath: `.status.conditions[?(@.type=="${type}")].${field}`,
  ...(wide ? { priority: 1 } : {}),
});
const age: Column = { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' };

interface Kind {
  readonly kind: string;
  readonly plural: string;
  readonly short: string;
  readonly spec: ObjectRule;
  readonly status: Structural;
  readonly columns: readonly Column[];
}

/** The two kinds of resource that people apply. */
export const KINDS: readonly Kind[] = [
  {
    kind: 'Capsule',
    plural: 'capsules',
    short: 'cap',
    spec: capsuleSpec,
    status: capsuleStatus,
    columns: [
      condition('Ready', 'Ready', 'status'),
      condition('Reason', 'Ready', 'reason'),
      { name: 'Namespace', type: 'string', jsonPath: '.status.namespace' },
      { name: 'Assistants', type: 'integer', jsonPath: '.status.assistants.total' },
      { name: 'Assistants Ready', type: 'integer', jsonPath: '.status.assistants.ready' },
      condition('Sandbox', 'SandboxReady', 'status', true),
      condition('Database', 'DatabaseReady', 'status', true),
      { name: 'Database Used', type: 'string', jsonPath: '.status.usage.database', priority: 1 },
      { name: 'Storage Used', type: 'string', jsonPath: '.status.usage.storage', priority: 1 },
      age,
      { name: 'Created', type: 'string', jsonPath: '.metadata.creationTimestamp', priority: 1 },
      condition('Since', 'Ready', 'lastTransitionTime', true),
      condition('Why', 'Ready', 'message', true),
    ],
  },
  {
    kind: 'Assistant',
    plural: 'assistants',
    short: 'asst',
    spec: assistantSpec,
    status: assistantStatus,
    columns: [
      { name: 'Capsule', type: 'string', jsonPath: '.spec.capsule' },
      condition('Ready', 'Ready', 'status'),
      condition('Reason', 'Ready', 'reason'),
      { name: 'Id', type: 'string', jsonPath: '.spec.manifest.platform.id' },
      { name: 'Version', type: 'string', jsonPath: '.spec.manifest.platform.version' },
      condition('Sandbox', 'SandboxReady', 'reason', true),
      condition('Workload', 'WorkloadReady', 'reason', true),
      { name: 'Database Used', type: 'string', jsonPath: '.status.usage.database', priority: 1 },
      { name: 'Storage Used', type: 'string', jsonPath: '.status.usage.storage', priority: 1 },
      { name: 'On Deletion', type: 'string', jsonPath: '.status.deletionPolicy', priority: 1 },
      age,
      // What is wrong, and what to do about it.
      condition('Since', 'Ready', 'lastTransitionTime', true),
      condition('Why', 'Ready', 'message', true),
    ],
  },
];

/** The CustomResourceDefinition of a kind. */
export function definition({ kind, plural, short, spec, status, columns }: Kind): object {
  const required = Object.keys(spec.required).length > 0 ? { required: ['spec'] } : {};
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${GROUP}` },
    spec: {
      group: GROUP,
      scope: 'Namespaced',
      names: {
        kind,
        listKind: `${kind}List`,
        plural,
        singular: kind.toLowerCase(),
        shortNames: [short],
        categories: ['space'],
      },
      versions: [
        {
          name: 'v1',
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: columns,
          schema: {
            openAPIV3Schema: {
              type: 'object',
              description: spec.description,
              ...required,
              properties: {
                apiVersion: text,
                kind: text,
                metadata: { type: 'object' },
                spec: structural(spec),
                status,
              },
            },
          },
        },
      ],
    },
  };
}
