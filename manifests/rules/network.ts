import { list, object, string } from './rule.ts';

export const network = object({
  title: 'Network block',
  description: 'What the Assistant may reach.',
  required: {
    allowed_hosts: list({
      title: 'Allowed hosts',
      description: 'At most 32 different hosts that the Assistant may reach; an empty list means none.',
      min: 0,
      max: 32,
      items: string({
        title: 'Host',
        description: 'A host name, 1 to 253 characters.',
        min: 1,
        max: 253,
        examples: ['api.bank.org'],
      }),
      unique: 'value',
    }),
  },
  optional: {},
});
