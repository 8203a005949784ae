import type { Manifest } from '../rules/manifest.ts';

/** How large a sample is to be. */
interface Size {
  readonly inputs?: number;
  /** Over all inputs. */
  readonly routes?: number;
  readonly selectors?: number;
  readonly values?: number;
  readonly valueLength?: number;
  readonly genesis?: number;
}

const times = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => make(i));
const named = (index: number, length: number) => `v${index}`.padEnd(length, 'x');

/** A valid manifest of a given size, with everything in it that a manifest may have. */
export function sampleManifest(size: Size = {}): Manifest {
  const { inputs = 3, routes = 10, selectors = 0, values = 1, valueLength = 4, genesis = 2000 } = size;
  const query = times(selectors, (s) => ({
    name: `parameter${s}`,
    values: times(values, (v) => named(v, valueLength)),
  }));
  const route = (index: number) => ({
    method: 'GET' as const,
    path: `/v1/accounts/*/postings-${index}`,
    ...(selectors > 0 ? { query } : {}),
  });
  const input = (index: number) => ({
    kind: 'password' as const,
    label: 'Bank API key',
    description: 'Lets the Assistant read postings.',
    help_url: 'https://help.bank.org/keys?lang=en',
    host: 'api.bank.org',
    routes: times(Math.floor((routes + inputs - 1 - index) / inputs), route),
    header: 'Authorization',
    scheme: 'Bearer',
  });
  return {
    platform: {
      spec: 1,
      id: 'ledger',
      version: '1.4.0',
      name: 'Ledger',
      summary: 'Keeps the books of a household',
      description: 'A double-entry ledger with a database of its own.',
      creators: ['@ada-l', '@grace'],
      github: 'https://github.com/ada-l/ledger',
      links: { site: 'https://ledger.dev/about', repo: 'https://github.com/ada-l/ledger' },
      genesis: 'You keep the books. '.repeat(Math.ceil(genesis / 20)).slice(0, genesis),
    },
    network: { allowed_hosts: ['api.bank.org', 'rates.ecb.org'] },
    integrations: { calendar: { scopes: ['calendar:read', 'calendar:write'] } },
    stored_inputs: Object.fromEntries(times(inputs, (index) => [`bank-${index}`, input(index)])),
  };
}

/** The largest manifest in every respect except the genesis. */
export const largestManifest = (): Manifest =>
  sampleManifest({ inputs: 8, routes: 256, selectors: 8, values: 16, valueLength: 24, genesis: 1 });
