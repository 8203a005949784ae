import { shortIdentifier } from './identifier.ts';
import { links } from './links.ts';
import { integer, list, object, string } from './rule.ts';
import { text } from './text.ts';

const creator = string({
  title: 'Creator',
  description: 'The handle of who made the Assistant, after an @.',
  min: 1,
  max: 33,
  checks: [
    {
      rule: 'handle',
      expect: 'match',
      pattern: '^@[a-z0-9][a-z0-9-]{1,30}[a-z0-9]$',
      says: 'be @ and a handle of 3 to 32 lowercase letters, digits and interior hyphens',
    },
  ],
  examples: ['@ada-l'],
});

const version = string({
  title: 'Version',
  description: "The Assistant's own version: major.minor.patch, without leading zeros.",
  // Not bounded by the interface: only the storage limit ends a version.
  min: 1,
  checks: [
    {
      rule: 'version',
      expect: 'match',
      pattern: '^(?:0|[1-9][0-9]*)\\.(?:0|[1-9][0-9]*)\\.(?:0|[1-9][0-9]*)$',
      says: 'be three whole numbers without leading zeros, joined by dots, such as 1.4.0',
    },
  ],
  examples: ['1.0.0'],
});

const github = string({
  title: 'Repository',
  description: "The https URL of the Assistant's repository on github.com: owner/repo and nothing after it.",
  min: 1,
  max: 159,
  checks: [
    {
      rule: 'repository',
      expect: 'match',
      pattern:
        '^https://github\\.com/[A-Za-z0-9](?:[A-Za-z0-9-]{0,37}[A-Za-z0-9])?/[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,98}[A-Za-z0-9])?$',
      says: 'be https://github.com/owner/repo: an owner of 1 to 39 letters, digits and interior hyphens, a repo of 1 to 100 letters, digits and interior _ . -',
    },
  ],
  examples: ['https://github.com/ada-l/ledger'],
});

export const platform = object({
  title: 'Platform block',
  description: 'Who the Assistant is.',
  required: {
    spec: integer({
      title: 'Manifest schema version',
      description: 'Exactly 1.',
      min: 1,
      max: 1,
    }),
    id: shortIdentifier({
      title: 'Assistant id',
      description:
        'Names the Assistant within its Capsule, for good: 1 to 40 lowercase letters, digits and single hyphens, a letter first. Not postgres, assistant-egress or platform-assistant-egress.',
      examples: ['ledger'],
      immutable: true,
    }),
    version,
    name: text({
      title: 'Name',
      description: 'What people call the Assistant, 1 to 80 characters.',
      max: 80,
      examples: ['Ledger'],
    }),
    summary: text({
      title: 'Summary',
      description: 'What it does in one line, 1 to 80 characters.',
      max: 80,
      examples: ['Keeps the books of a household'],
    }),
    description: text({
      title: 'Description',
      description: 'What it does, 1 to 400 characters.',
      max: 400,
    }),
    creators: list({
      title: 'Creators',
      description: '1 to 16 different handles.',
      min: 1,
      max: 16,
      items: creator,
      unique: 'value',
    }),
    github,
    genesis: string({
      title: 'Genesis',
      description: 'The text that the Assistant starts from, 1 to 65536 characters.',
      min: 1,
      max: 65_536,
      hidden: true,
    }),
  },
  optional: { links },
});
