import { z } from 'zod';
import { jsonOption } from '../json-option.ts';

/** What the chart says of the release that is tested, as JSON in `SPACE_TEST`. */
export const selfTestOptions = z.strictObject({
  space: z.string().min(1),
  /** Where people keep Capsules and Assistants. */
  releaseNamespace: z.string().min(1),
  systemNamespace: z.string().min(1),
  servicesNamespace: z.string().min(1),
  /** Parts that the values ask for, by their label; each is to be there. */
  parts: z.array(z.string().min(1)).min(1),
  /** What is around the Space, and not to be reached either. */
  closed: z.array(
    z.strictObject({ name: z.string(), address: z.string(), port: z.number().int().positive() }),
  ),
  /** Checks that do not hold yet are repeated for this long. */
  seconds: z.number().min(0),
});

export type SelfTestOptions = z.infer<typeof selfTestOptions>;

/** The environment; each sentence is what docs/configuration.md says of a variable. */
export const schema = z.object({
  SPACE_TEST: jsonOption(selfTestOptions).describe(
    'What the chart says of the release, as JSON: names of its namespaces, parts that must be there, and addresses that must not be reached.',
  ),
});
