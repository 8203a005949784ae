/** The chart accepts no value with which a program of the Space would not start. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readConfig as readDatabaseConfig } from '../../brokers/db/config.ts';
import { readConfig as readEgressConfig } from '../../brokers/egress/config.ts';
import { readConfig as readObjectStoreConfig } from '../../brokers/objectstore/config.ts';
import { readConfig as readConsoleConfig } from '../../console/config.ts';
import { type Helm, podsIn, startHelm } from './testing/rendered.ts';

const READ = {
  'db-broker': readDatabaseConfig,
  'platform-assistant-egress': readEgressConfig,
  'objectstore-broker': readObjectStoreConfig,
  'home-console': readConsoleConfig,
} as const;
type Program = keyof typeof READ;
type Environment = Readonly<Record<string, string>>;

const ISSUER = {
  'console.oidc': { issuer: 'https://id.example.org', clientId: 'space', users: ['mia'] },
};
const ISSUER_SET = { OIDC_ISSUER: 'https://id.example.org', OIDC_CLIENT_ID: 'space' };

let helm: Helm;
let rendered: ReadonlyMap<string, Environment>;
beforeAll(async () => {
  helm = await startHelm();
  const pods = podsIn(await helm.render());
  rendered = new Map(
    [...pods].map(([name, { containers }]) => [name, environmentOf(containers[0].env ?? [])]),
  );
}, 600_000);
afterAll(() => helm?.close());

const environmentOf = (variables: readonly { name: string; value?: string }[]): Environment =>
  Object.fromEntries(variables.map(({ name, value = '' }) => [name, value]));

function starts(program: Program, changed: Environment): boolean {
  try {
    READ[program]({ ...rendered.get(program), ...changed });
    return true;
  } catch {
    return false;
  }
}

const flags = (values: object) =>
  Object.entries(values).flatMap(([value, to]) => ['--set-json', `${value}=${JSON.stringify(to)}`]);

/** A value, its variable, and the numbers on both sides of a bound. */
const connections = (part: string, program: Program, total: number) =>
  [total / 4, total / 4 + 1].map((count) => ({
    program,
    values: { [`${part}.connections`]: { total, perAddress: count } },
    changed: { CONNECTIONS: String(total), CONNECTIONS_PER_ADDRESS: String(count) },
    reason: `${part}.connections.perAddress is ${count}, which is more than a quarter of ${part}.connections.total (${total})`,
  }));
const bound = (
  program: Program,
  value: string,
  variable: string,
  counts: readonly number[],
  reason: string,
) =>
  counts.map((count) => ({
    program,
    values: { [value]: count },
    changed: { [variable]: String(count) },
    reason,
  }));
const header = (name: string) => ({
  program: 'platform-assistant-egress' as const,
  values: { 'egress.requestHeaders': ['x-tenant-id', name] },
  changed: { REQUEST_HEADERS: `x-tenant-id,${name}` },
  reason: `egress.requestHeaders: ${name} says who asks, or belongs to the connection`,
});
const origin = (text: string) => ({
  program: 'home-console' as const,
  values: { 'console.origins': [text] },
  changed: { ORIGINS: text },
  reason: 'console.origins',
});

const MILLION = [1_000_000, 1_000_001];
const CASES = [
  ...connections('dbBroker', 'db-broker', 64),
  ...connections('objectStore', 'objectstore-broker', 400),
  ...connections('egress', 'platform-assistant-egress', 64),
  ...connections('console', 'home-console', 64),
  ...bound(
    'platform-assistant-egress',
    'egress.limits.connections',
    'CALLER_CONNECTIONS',
    [4096, 4097],
    'egress.limits.connections is more than egress.limits.all.connections',
  ),
  ...(
    [
      ['shares.streams', 'OBJECT_STREAMS'],
      ['shares.places', 'OBJECT_CONNECTIONS'],
      ['shares.queueSeconds', 'OBJECT_QUEUE_SECONDS'],
      ['shares.contendedBytes', 'OBJECT_CONTENDED_BYTES_PER_SECOND'],
      ['longSeconds', 'S3_LONG_SECONDS'],
      ['entryBytes', 'QUOTA_ENTRY_BYTES'],
      ['openUploads', 'OPEN_UPLOADS'],
    ] as const
  ).flatMap(([value, variable]) =>
    bound(
      'objectstore-broker',
      `objectStore.${value}`,
      variable,
      MILLION,
      `/objectStore/${value.replace('.', '/')}`,
    ),
  ),
  ...['x-api-key', 'authorization', 'cookie', 'accept-encoding', 'content-length', 'host'].map(header),
  ...['proxy-authorization', 'x-forwarded-for', 'x-http-method-override', 'traceparent', 'range'].map(header),
  ...['te', 'ted', 'upgrade', 'x-original-url', 'via', 'expect', 'keep-alive', 'x-via'].map(header),
  ...['https://space.example.org', 'https://space.example.org:8443', 'http://localhost:443'].map(origin),
  ...['https://space.example.org:443', 'http://localhost:80', 'https://space.example.org:65536'].map(origin),
  ...[ISSUER, { 'console.oidc': { ...ISSUER['console.oidc'], clientId: '' } }].map((values) => ({
    program: 'home-console' as const,
    values,
    changed: { ...ISSUER_SET, OIDC_CLIENT_ID: values['console.oidc'].clientId },
    reason: 'console.oidc.issuer is set: name in console.oidc.clientId',
  })),
];

describe('the chart', () => {
  const titled = CASES.map((one) => [JSON.stringify(one.values), one.program, one] as const);
  it.each(titled)(
    'renders %s exactly if %s starts with it',
    async (_, program, { values, changed, reason }) => {
      const { code, stderr } = await helm.template(...flags(values));
      expect({ isRendered: code === 0 }).toEqual({ isRendered: starts(program, changed) });
      if (code !== 0) expect(stderr).toContain(reason);
    },
  );

  it('renders defaults with which every program starts', () => {
    for (const program of Object.keys(READ) as Program[])
      expect([program, starts(program, {})]).toEqual([program, true]);
  });
});
