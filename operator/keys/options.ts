import { z } from 'zod';
import { jsonOption } from '../json-option.ts';
import type { Cluster } from './cluster.ts';

/** What the chart says about a Space, as JSON in `KEYS`. */
export const keysOptions = z.strictObject({
  space: z.string().min(1),
  /** Where people keep Capsules; older charts had the operator and its keys there. */
  releaseNamespace: z.string().min(1),
  systemNamespace: z.string().min(1),
  servicesNamespace: z.string().min(1),
  objectStore: z.boolean(),
  byok: z.boolean(),
  console: z.boolean(),
  backup: z.boolean(),
  /** Volume claims of the servers that the Space runs itself. */
  volumes: z.array(z.string()),
  /** The chart's `existingSecrets` that are set: they belong to somebody else, and are never read. */
  given: z.array(z.string()),
  /** Absent without TLS, and if the certificates are somebody else's. */
  certificates: z
    .strictObject({
      /** Each service by the name of its Service, with its namespace and its further names. */
      services: z.record(
        z.string(),
        z.strictObject({ place: z.enum(['system', 'services']), names: z.array(z.string()) }),
      ),
      days: z.int().positive(),
      authorityDays: z.int().positive(),
      /** Minutes until everybody trusts a published authority or uses a new certificate. */
      authorityStepMinutes: z.int().positive(),
    })
    .optional(),
  tls: z.boolean(),
  /** Objects of somebody else that the operator and its pods mount. */
  mounted: z.strictObject({ secrets: z.array(z.string()), configMaps: z.array(z.string()) }),
});

export type KeysOptions = z.infer<typeof keysOptions>;

/** The environment; each sentence is what docs/configuration.md says of a variable. */
export const schema = z.object({
  KEYS: jsonOption(keysOptions).describe(
    'What the chart knows of the Space, as JSON: the names of its namespaces, the keys and certificates that it needs, and the Secrets that you provide yourself.',
  ),
});

/** Logs what was done; values are never logged. */
type Tell = (
  did: 'made' | 'renewed' | 'updated' | 'removed' | 'refused' | 'differs',
  what: string,
  why?: string,
) => void;

/** The input of one run of the program. */
export interface Run extends KeysOptions {
  readonly cluster: Cluster;
  readonly now: Date;
  readonly tell: Tell;
}

/** Labels of the objects that this program creates, which distinguish them from the chart's. */
export const labelsOf = ({ space }: KeysOptions) => ({
  'app.kubernetes.io/part-of': 'space',
  'app.kubernetes.io/managed-by': 'space-keys',
  'platform.space/space': space,
});
