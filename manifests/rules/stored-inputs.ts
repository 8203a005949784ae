import { helpUrl } from './help-url.ts';
import { identifier } from './identifier.ts';
import { parameterName, route } from './route.ts';
import { choice, list, map, object, string } from './rule.ts';
import { text } from './text.ts';

const header = string({
  title: 'Header',
  description:
    "The request header that gets the value: 1 to 64 letters, digits and ! # $ % & ' * + . ^ _ ` | ~ -",
  min: 1,
  max: 64,
  checks: [
    {
      rule: 'header-name',
      expect: 'match',
      pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$",
      says: "consist of letters, digits and ! # $ % & ' * + . ^ _ ` | ~ -",
    },
  ],
  examples: ['Authorization'],
});

const scheme = string({
  title: 'Scheme',
  description:
    'The word before the value in the header: a letter, then letters, digits and hyphens, at most 32.',
  min: 1,
  max: 32,
  checks: [
    {
      rule: 'scheme',
      expect: 'match',
      pattern: '^[A-Za-z][A-Za-z0-9-]*$',
      says: 'begin with a letter and go on with letters, digits and hyphens',
    },
  ],
  examples: ['Bearer'],
});

const storedInput = object({
  title: 'Stored input',
  description: 'A secret that the platform injects into requests to one host on these routes.',
  required: {
    kind: choice({ title: 'Kind', description: 'Exactly password.', options: ['password'] }),
    label: text({
      title: 'Label',
      description: 'What the person who fills it in sees, 1 to 80 characters.',
      max: 80,
      examples: ['Bank API key'],
    }),
    description: text({
      title: 'Description',
      description: 'What the secret is for, 1 to 400 characters.',
      max: 400,
    }),
    help_url: helpUrl({
      title: 'Help URL',
      description: 'The page that says how to get the secret.',
      examples: ['https://help.bank.org/keys'],
    }),
    host: string({
      title: 'Host',
      description: 'The one host that gets the secret, 1 to 253 characters.',
      min: 1,
      max: 253,
      examples: ['api.bank.org'],
    }),
    routes: list({
      title: 'Routes',
      description: '1 to 32 kinds of request that may carry the secret.',
      min: 1,
      max: 32,
      items: route,
    }),
  },
  optional: {
    header,
    query: parameterName('Query parameter', 'The query parameter that gets the value.'),
    scheme,
    hmac: identifier({
      title: 'Signing profile',
      description: 'With a profile the secret signs the request and is not sent.',
      examples: ['sha256-body'],
    }),
  },
  exactlyOne: ['header', 'query'],
  onlyWith: { scheme: 'header' },
});

export const storedInputs = map({
  title: 'Stored inputs',
  description: 'At most 8 secrets that people store for the Assistant, which never sees them.',
  max: 8,
  keys: identifier({ title: 'Input key', description: 'Names the stored input.', examples: ['bank'] }),
  values: storedInput,
});
