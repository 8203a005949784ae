import { z } from 'zod';
import { jsonOption } from '../json-option.ts';

/** What the chart says about the release that is tested, as JSON in `SPACE_TEST`. */
export const selfTestOptions = z.strictObject({
  space: z.string().min(1),
  /** Where people keep Capsules and Assistants. */
  releaseNamespace: z.string().min(1),
  systemNamespace: z.string().min(1),
  servicesNamespace: z.string().min(1),
  /** Component labels of the parts that the values enable; each must exist. */
  parts: z.array(z.string().min(1)).min(1),
  /** Addresses around the Space that must be closed, too. */
  closed: z.array(
    z.strictObject({ name: z.string(), address: z.string(), port: z.number().int().positive() }),
  ),
  /** Seconds for which failed checks are repeated. */
  seconds: z.number().min(0),
});

export type SelfTestOptions = z.infer<typeof selfTestOptions>;

/** The environment; each sentence is what docs/configuration.md says of a variable. */
export const schema = z.object({
  SPACE_TEST: jsonOption(selfTestOptions).describe(
    'What the chart knows of the release, as JSON: the names of its namespaces, the parts that must exist, and the addresses that must not be reachable.',
  ),
});
