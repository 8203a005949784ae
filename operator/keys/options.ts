import { z } from 'zod';
import { jsonOption } from '../json-option.ts';
import type { Cluster } from './cluster.ts';

/** What the chart says of a Space, as JSON in `KEYS`. */
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
  /** The chart's `existingSecrets` that have a name: they belong to somebody else, and are never read. */
  given: z.array(z.string()),
  /** Left out where there is no TLS, or where its certificates are somebody else's. */
  certificates: z
    .strictObject({
      /** Each service by the name of its Service: its namespace and its other names. */
      services: z.record(
        z.string(),
        z.strictObject({ place: z.enum(['system', 'services']), names: z.array(z.string()) }),
      ),
      days: z.int().positive(),
      authorityDays: z.int().positive(),
      /** How long what everybody has to trust, or is shown, takes to reach everybody. */
      authorityStepMinutes: z.int().positive(),
    })
    .optional(),
  tls: z.boolean(),
  /** What the operator and its pods mount that is somebody else's. */
  mounted: z.strictObject({ secrets: z.array(z.string()), configMaps: z.array(z.string()) }),
});

export type KeysOptions = z.infer<typeof keysOptions>;

/** The environment; each sentence is what docs/configuration.md says of a variable. */
export const schema = z.object({
  KEYS: jsonOption(keysOptions).describe(
    "What the chart says of the Space, as JSON: names of its namespaces, which keys and certificates it needs, and Secrets that are somebody else's.",
  ),
});

/** What was done, for the log: never a value. */
type Tell = (
  did: 'made' | 'renewed' | 'updated' | 'removed' | 'refused' | 'differs',
  what: string,
  why?: string,
) => void;

/** One look at everything. */
export interface Run extends KeysOptions {
  readonly cluster: Cluster;
  readonly now: Date;
  readonly tell: Tell;
}

/** Marks what this program made, so that nobody takes it for the chart's. */
export const labelsOf = ({ space }: KeysOptions) => ({
  'app.kubernetes.io/part-of': 'space',
  'app.kubernetes.io/managed-by': 'space-keys',
  'platform.space/space': space,
});
