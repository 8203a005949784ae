import { helpUrl, helpUrlOn } from './help-url.ts';
import { object } from './rule.ts';

const MAX = 256;
const described = (title: string, where: string) => ({
  title,
  description: `A Help URL ${where}, at most ${MAX} characters.`,
});

export const links = object({
  title: 'Links',
  description: 'Where people learn more about the Assistant; at least one.',
  required: {},
  optional: {
    site: helpUrl({ ...described('Web site', 'of any host'), examples: ['https://ledger.dev/about'] }, MAX),
    repo: helpUrlOn(['github.com'], described('Source code', 'on github.com'), MAX),
    microblog: helpUrlOn(
      ['x.com', 'twitter.com', 'bsky.app'],
      described('Short posts', 'on x.com, twitter.com or bsky.app'),
      MAX,
    ),
    video: helpUrlOn(
      ['youtube.com', 'www.youtube.com'],
      described('Videos', 'on youtube.com or www.youtube.com'),
      MAX,
    ),
    professional: helpUrlOn(
      ['linkedin.com', 'www.linkedin.com'],
      described('Professional network', 'on linkedin.com or www.linkedin.com'),
      MAX,
    ),
    photo: helpUrlOn(
      ['instagram.com', 'www.instagram.com'],
      described('Photos', 'on instagram.com or www.instagram.com'),
      MAX,
    ),
  },
  notEmpty: true,
});
