import { identifier } from './identifier.ts';
import { list, map, object, string } from './rule.ts';

const integration = object({
  title: 'Integration',
  description: 'What the Assistant asks of one integration.',
  required: {
    scopes: list({
      title: 'Scopes',
      description: '1 to 32 different scopes.',
      min: 1,
      max: 32,
      items: string({
        title: 'Scope',
        description:
          'A lowercase letter or digit, then lowercase letters, digits and . : / _ -, at most 128.',
        min: 1,
        max: 128,
        checks: [
          {
            rule: 'scope',
            expect: 'match',
            pattern: '^[a-z0-9][a-z0-9.:/_-]*$',
            says: 'begin with a lowercase letter or digit and go on with lowercase letters, digits and . : / _ -',
          },
        ],
        examples: ['calendar:read'],
      }),
      unique: 'value',
    }),
  },
  optional: {},
});

/** What a manifest requests; also what an administrator grants to a Capsule. */
export const integrations = (description: string) =>
  map({
    title: 'Integrations',
    description,
    max: 16,
    keys: identifier({
      title: 'Integration key',
      description: 'Names the integration.',
      examples: ['calendar'],
    }),
    values: integration,
    atomic: true,
  });
