import { shortIdentifier } from './identifier.ts';
import { integrations } from './integrations.ts';
import type { Accepted } from './rule.ts';
import { boolean, choice, integer, object, quantity } from './rule.ts';
import { text } from './text.ts';

/** The rule of a Capsule's `metadata.name`, which is its `capsule_id` on every wire. */
export const capsuleName = shortIdentifier({
  title: 'Capsule name',
  description:
    '1 to 40 lowercase letters, digits and single hyphens, a letter first. Not postgres, assistant-egress or platform-assistant-egress.',
  examples: ['household'],
});

const quota = object({
  title: 'Quota',
  description: 'The most that all Assistants of the Capsule may use together.',
  required: {},
  optional: {
    cpu: quantity({ title: 'CPU', description: 'Processor time, in cores.', examples: ['2', '500m'] }),
    memory: quantity({ title: 'Memory', description: 'Memory, in bytes.', examples: ['4Gi'] }),
    pods: integer({ title: 'Pods', description: 'Pods at the same time.', min: 0, max: 10_000 }),
    assistants: integer({ title: 'Assistants', description: 'Assistants.', min: 0, max: 1_000 }),
    storage: quantity({
      title: 'Storage',
      description: 'Files in the object store, in bytes; without it, as much as the Space grants by default.',
      examples: ['10Gi'],
    }),
    database: quantity({
      title: 'Database',
      description:
        'What its databases may hold together, in bytes; without it, as much as the Space grants by default. An empty database takes 8Mi.',
      examples: ['2Gi'],
    }),
  },
});

const database = object({
  title: 'Database',
  description: 'How the databases of the Capsule are limited, each for itself.',
  required: {},
  optional: {
    connections: integer({
      title: 'Connections',
      description:
        'Connections that each Assistant may hold to its database; without it, as many as the Space grants by default.',
      min: 1,
      max: 1_000,
    }),
  },
});

export const capsuleSpec = object({
  title: 'Capsule',
  description: 'An isolated tenant environment, in which Assistants run.',
  required: {},
  optional: {
    displayName: text({
      title: 'Display name',
      description: 'What people call the Capsule, 1 to 80 characters.',
      max: 80,
      examples: ['The Household'],
    }),
    deletionPolicy: choice({
      title: 'Deletion policy',
      description:
        'Drop deletes databases and files with the Capsule; Retain keeps them. Assistants that say nothing follow it.',
      options: ['Drop', 'Retain'],
      default: 'Drop',
    }),
    quota,
    database,
    integrations: integrations(
      'What the administrator grants: an Assistant may use an integration with these scopes and no others.',
    ),
    approval: choice({
      title: 'Approval',
      description: 'auto runs what asks for no more than is granted; manual waits for a person.',
      options: ['auto', 'manual'],
      default: 'auto',
    }),
    suspend: boolean({
      title: 'Suspend',
      description: 'Stops every Assistant of the Capsule, and keeps its data.',
      default: false,
    }),
  },
});

export type CapsuleSpec = Accepted<typeof capsuleSpec>;
