import { identifier, shortIdentifier } from './identifier.ts';
import { manifest } from './manifest.ts';
import type { Accepted, Check } from './rule.ts';
import { boolean, choice, integer, list, map, object, quantity, string } from './rule.ts';

/** What the platform sets itself, or what would lead past its proxy. */
const RESERVED_VARIABLES = [
  'DATABASE_URL',
  'OBJECT_STORE_URL',
  'OBJECT_STORE_TOKEN_FILE',
  'OBJECT_STORE_GRANT_FILE',
  'CAPSULE_ID',
  'ASSISTANT_ID',
  'PORT',
  'HTTP_PROXY',
  'HTTPS_PROXY',
  'NO_PROXY',
  'http_proxy',
  'https_proxy',
  'no_proxy',
  'NODE_USE_ENV_PROXY',
  'EGRESS_URL',
  'EGRESS_TOKEN',
];

/** Whatever stored inputs there are now: the next manifest may name others. */
const INPUT_VARIABLE: Check = {
  rule: 'reserved',
  expect: 'avoid',
  pattern: '^INPUT_[A-Z0-9_]+_URL$',
  says: 'not be INPUT_…_URL, which the platform keeps for itself',
};

const DNS_NAME: Check = {
  rule: 'dns-name',
  expect: 'match',
  pattern: '^[a-z0-9]+(?:(?:-+|\\.)[a-z0-9]+)*$',
  says: 'be labels of lowercase letters, digits and interior hyphens, joined by single dots',
};

const NO_NUL: Check = {
  rule: 'nul',
  expect: 'avoid',
  pattern: '\\u0000',
  says: 'not contain a NUL character (U+0000), at which a variable or an argument ends',
};

const variable = object({
  title: 'Variable',
  description: 'A literal environment variable.',
  required: {
    name: string({
      title: 'Name',
      description: 'Letters, digits and _, no digit first; not a name that the platform sets itself.',
      min: 1,
      max: 128,
      checks: [
        {
          rule: 'variable-name',
          expect: 'match',
          pattern: '^[A-Za-z_][A-Za-z0-9_]*$',
          says: 'begin with a letter or _ and go on with letters, digits and _',
        },
        INPUT_VARIABLE,
      ],
      except: RESERVED_VARIABLES,
      examples: ['LOG_LEVEL'],
    }),
    value: string({
      title: 'Value',
      description: 'The value as it is; a secret belongs in a stored input.',
      min: 0,
      max: 8192,
      checks: [NO_NUL],
      hidden: true,
    }),
  },
  optional: {},
});

const words = (title: string, description: string) =>
  list({
    title,
    description,
    min: 0,
    max: 64,
    items: string({
      title: 'Word',
      description: 'One argument.',
      min: 0,
      max: 4096,
      checks: [NO_NUL],
      hidden: true,
    }),
  });

const amounts = (title: string, description: string) =>
  object({
    title,
    description,
    required: {},
    optional: {
      cpu: quantity({ title: 'CPU', description: 'Processor time, in cores.', examples: ['250m'] }),
      memory: quantity({ title: 'Memory', description: 'Memory, in bytes.', examples: ['128Mi'] }),
      'ephemeral-storage': quantity({
        title: 'Ephemeral storage',
        description: 'Disk of the node, in bytes.',
        examples: ['256Mi'],
      }),
    },
  });

const secretKeyRef = object({
  title: 'Secret key',
  description: "A key of a Secret in the Space's namespace.",
  required: {
    name: string({
      title: 'Secret',
      description: 'The name of the Secret.',
      min: 1,
      max: 253,
      checks: [DNS_NAME],
      examples: ['household-bank'],
    }),
    key: string({
      title: 'Key',
      description: 'The key in the Secret.',
      min: 1,
      max: 253,
      checks: [
        {
          rule: 'secret-key',
          expect: 'match',
          pattern: '^[A-Za-z0-9._-]+$',
          says: 'consist of letters, digits and . _ -',
        },
      ],
      examples: ['value'],
    }),
  },
  optional: {},
});

/** The rule of an Assistant's `metadata.name`, which is Kubernetes' own. */
export const assistantName = string({
  title: 'Assistant name',
  description: 'Lowercase letters, digits, interior hyphens and dots; any name that Kubernetes takes.',
  min: 1,
  max: 253,
  checks: [DNS_NAME],
  examples: ['ledger'],
});

export const assistantSpec = object({
  title: 'Assistant',
  description: 'A workload that runs in a Capsule, inside a sandbox, under its manifest.',
  required: {
    capsule: shortIdentifier({
      title: 'Capsule',
      description: 'The name of the Capsule to run in, for good.',
      immutable: true,
      examples: ['household'],
    }),
    manifest,
    image: string({
      title: 'Image',
      description: 'The container image.',
      min: 1,
      max: 512,
      checks: [
        {
          rule: 'image',
          expect: 'match',
          pattern: '^[A-Za-z0-9][A-Za-z0-9._/:@-]*$',
          says: 'be an image reference such as registry.site.org/team/ledger:1.0.0 or …@sha256:…',
        },
      ],
      examples: ['registry.site.org/team/ledger:1.0.0'],
    }),
  },
  optional: {
    command: words('Command', "Replaces the image's entry point."),
    args: words('Arguments', "Replaces the image's arguments."),
    env: list({
      title: 'Environment',
      description: 'At most 64 literal environment variables of different names.',
      min: 0,
      max: 64,
      items: variable,
      unique: { by: 'name' },
    }),
    port: integer({
      title: 'Port',
      description: 'Where the container listens.',
      min: 1,
      max: 65_535,
      default: 8080,
    }),
    resources: object({
      title: 'Resources',
      description: 'What the container gets.',
      required: {},
      optional: {
        requests: amounts('Requests', 'What is set aside for it.'),
        limits: amounts('Limits', 'The most it may use.'),
      },
    }),
    replicas: integer({
      title: 'Replicas',
      description: 'How many pods run.',
      min: 0,
      max: 10,
      default: 1,
    }),
    storedInputs: map({
      title: 'Stored inputs',
      description: "Where the value of each of the manifest's stored inputs is.",
      max: 8,
      keys: identifier({ title: 'Input key', description: 'A key of the manifest’s stored_inputs.' }),
      values: object({
        title: 'Value',
        description: 'Where the value is.',
        required: { secretKeyRef },
        optional: {},
      }),
    }),
    deletionPolicy: choice({
      title: 'Deletion policy',
      description:
        "Drop deletes its database and its files with it; Retain keeps them for the next Assistant of its id. Without it, as its Capsule's.",
      options: ['Drop', 'Retain'],
    }),
    suspend: boolean({ title: 'Suspend', description: 'Stops the pods and keeps the data.', default: false }),
  },
});

export type AssistantSpec = Accepted<typeof assistantSpec>;
