/** Addresses in the values: the chart refuses those that the API server or a program would refuse later. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseBlock } from '../../brokers/kit/net/address.ts';
import { type ApiServer, startApiServer } from '../../testing/api-server.ts';
import { CHART } from './chart.ts';
import { type Helm, startHelm } from './testing/rendered.ts';

let helm: Helm;
let server: ApiServer;
beforeAll(async () => {
  helm = await startHelm();
  server = await startApiServer();
}, 600_000);
afterAll(async () => {
  await server?.stop();
  await helm?.close();
});

const setJson = (value: string, to: unknown) => ['--set-json', `${value}=${JSON.stringify(to)}`];

async function refusal(value: string, to: unknown): Promise<string> {
  const { code, stderr } = await helm.template(...setJson(value, to));
  expect([value, to, code]).toEqual([value, to, 1]);
  return stderr;
}

/** Whether the API server accepts a NetworkPolicy with the block. */
function isTakenByServer(cidr: string): Promise<boolean> {
  const policy = {
    metadata: { name: 'tried' },
    spec: { podSelector: {}, egress: [{ to: [{ ipBlock: { cidr } }] }] },
  };
  const path = '/apis/networking.k8s.io/v1/namespaces/default/networkpolicies?dryRun=All';
  return server.client.call({ method: 'POST', path, body: policy }).then(
    () => true,
    () => false,
  );
}

/** Of a schema for the values, what these tests read. */
interface Schema {
  readonly $ref?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly pattern?: string;
  readonly definitions?: Readonly<Record<string, Schema>>;
}

/** Every value that is a list of blocks, also those that are added later; of a list, its first entry. */
async function blockValues(): Promise<readonly string[]> {
  const schema: Schema = JSON.parse(await readFile(join(CHART, 'values.schema.json'), 'utf8'));
  const block = schema.definitions?.['blocks']?.items?.pattern;
  const resolve = ({ $ref, ...other }: Schema): Schema =>
    $ref === undefined ? other : (schema.definitions?.[$ref.split('/').at(-1) ?? ''] ?? {});
  function* walk(at: string, of: Schema): Generator<string> {
    const { properties = {}, items } = resolve(of);
    if (items !== undefined && resolve(items).pattern === block) yield at;
    else if (items !== undefined) yield* walk(`${at}[0]`, items);
    for (const [name, value] of Object.entries(properties))
      yield* walk(at === '' ? name : `${at}.${name}`, value);
  }
  return [...walk('', schema)];
}

describe('a block of addresses', () => {
  it('is refused by the name of its value if bits are set after its prefix, with the block that was meant', async () => {
    const values = await blockValues();
    expect(values).toHaveLength(12);
    for (const value of values) {
      const whole = value.startsWith('postgres.servers[0]')
        ? setJson('postgres.servers[0]', { name: 'second', host: 'second.example.org' })
        : [];
      const { code, stderr } = await helm.template(...whole, ...setJson(value, ['10.0.0.0/8', '10.0.0.1/8']));
      expect([value, code]).toEqual([value, 1]);
      expect(stderr).toContain(
        `${value}: 10.0.0.1/8 has bits set after its first 8; the block is written as 10.0.0.0/8`,
      );
    }
  });

  it.each([
    ['172.16.5.4/12', '172.16.0.0/12'],
    ['10.0.0.128/24', '10.0.0.0/24'],
    ['10.0.0.1/0', '0.0.0.0/0'],
    ['2001:db8::1/32', '2001:db8:0:0:0:0:0:0/32'],
    ['2001:db8:1:8001::/49', '2001:db8:1:8000:0:0:0:0/49'],
    ['64:ff9b::10.0.0.1/104', '64:ff9b:0:0:0:0:a00:0/104'],
  ])('%s is written as %s', async (given, meant) => {
    expect(await refusal('egress.deniedCIDRs', [given])).toContain(`the block is written as ${meant}`);
    expect(parseBlock(meant)).toBeDefined();
  });

  // Each of these is judged by three programs: the chart, the gateway, and the API server.
  it.each([
    ...['0.0.0.0/0', '::/0', '10.0.0.0/8', '203.0.113.7/32', '128.0.0.0/1', '10.128.0.0/9'],
    ...['2001:db8::/32', 'FD00::/8', '::1/128', '1:2:3:4:5:6:7::/112', '2001:db8:8000::/33'],
    ...['64:ff9b::10.0.0.0/104', '1:2:3:4:5:6:7:8/128', '::2:3:4:5:6:7:8/128'],
    ...['10.0.0.1/8', '256.0.0.0/8', '10.0.0/8', '10.0.0.0.0/8', '10.0.0.0/33', '010.0.0.0/8', '10.0.0.0/08'],
    ...['2001:db8::/129', '2001:db8::1/64', '2001::db8::/32', ':::/0', '1:2:3:4:5:6:7:8:9/128', '1:2/16'],
    ...[
      '12345::/16',
      '::10.0.0.256/128',
      '1:2:3:4:5:6:7/112',
      ':1:2:3:4:5:6:7:8/128',
      '1:2:3:4:5:6:7:8::/128',
    ],
  ])('%s is accepted exactly if it is accepted afterwards', async (cidr) => {
    const { code, stderr } = await helm.template(...setJson('egress.deniedCIDRs', [cidr]));
    if (code !== 0) expect(stderr).toMatch(/egress.deniedCIDRs/);
    const isTaken = await isTakenByServer(cidr);
    expect({ chart: code === 0, gateway: parseBlock(cidr) !== undefined, isTaken }).toEqual({
      chart: isTaken,
      gateway: isTaken,
      isTaken,
    });
  });

  it.each(['::ffff:10.0.0.0/104', '::ffff:a00:0/112', '0:0:0:0:0:FFFF::/96'])(
    '%s, of IPv4 and written as IPv6, is refused before the API server refuses it',
    async (cidr) => {
      expect(await isTakenByServer(cidr)).toBe(false);
      expect(await refusal('egress.deniedCIDRs', [cidr])).toContain(`${cidr} is no block of addresses`);
    },
  );

  it('of a NAT64 is of IPv6 and has one of the six lengths, as the gateway demands', async () => {
    for (const wrong of ['10.0.0.0/32', '2001:db8::/33', '2001:db8::/128'])
      expect(await refusal('egress.nat64Prefixes', [wrong])).toContain(
        `egress.nat64Prefixes: ${wrong} is no prefix of a NAT64`,
      );
    for (const bits of [32, 40, 48, 56, 64, 96])
      expect((await helm.template(...setJson('egress.nat64Prefixes', [`2001:db8::/${bits}`]))).code).toBe(0);
  });
});

describe('an address', () => {
  const host = 'api.intern.example.org';

  it.each([
    ['egress.hosts', { [host]: '999.1.1.1' }, `egress.hosts: ${host}: 999.1.1.1 is no IPv4 or IPv6 address`],
    ['egress.hosts', { [host]: '10.0.0.1:65536' }, `egress.hosts: ${host}: "65536" is no port`],
    ['egress.hosts', { [host]: '2001:db8::1::2' }, '2001:db8::1::2 is no IPv4 or IPv6 address'],
    ['egress.hosts', { [host]: '[2001:db8::1::2]:443' }, '2001:db8::1::2 is no IPv4 or IPv6 address'],
    ['egress.hosts', { [host]: '[::ffff:10.0.0.1]:443' }, '::ffff:10.0.0.1 is no IPv4 or IPv6 address'],
    ['egress.hosts', { [host]: '[fd00::7]:99999' }, `egress.hosts: ${host}: "99999" is no port`],
    ['objectStore.byok.hosts', { [host]: '10.0.0.256:9000' }, `objectStore.byok.hosts: ${host}: 10.0.0.256`],
    ['objectStore.byok.hosts', { [host]: '[fd00:::7]' }, `objectStore.byok.hosts: ${host}: fd00:::7`],
    ['postgres.external.assistants.addresses', ['10.0.0.300'], 'addresses: 10.0.0.300 is no IPv4 or IPv6'],
    ['objectStore.external.endpoint', 'https://s3.example.org:99999', '"99999" is no port'],
    ['backup.s3.endpoint', 'https://s3.example.org:0', 'backup.s3.endpoint: "0" is no port'],
    ['console.oidc.issuer', 'https://id.example.org:70000/home', 'console.oidc.issuer: "70000" is no port'],
  ])('in %s that cannot exist is refused: %j', async (value, to, reason) => {
    expect(await refusal(value, to)).toContain(reason);
  });

  it('is accepted in each of its forms', async () => {
    const hosts = {
      'a.example.org': '203.0.113.7',
      'b.example.org': '203.0.113.7:65535',
      'c.example.org': '2001:db8::7',
      'd.example.org': '[2001:db8::7]:1',
      'e.example.org': '64:ff9b::203.0.113.7',
    };
    const rendered = await helm.render(...setJson('egress.hosts', hosts));
    const policy = rendered.find(
      ({ kind, metadata }) => kind === 'NetworkPolicy' && metadata.name === 'egress',
    );
    const text = JSON.stringify(policy?.['spec'].egress);
    for (const cidr of ['203.0.113.7/32', '2001:db8::7/128', '64:ff9b::203.0.113.7/128'])
      expect(text).toContain(`{"cidr":"${cidr}"}`);
  });
});

describe('a list that makes a rule of a NetworkPolicy', () => {
  it.each(['network.apiServerCIDRs', 'network.apiServerPorts', 'network.dns.ports'])(
    'is refused if %s is null, by which Helm removes the default',
    async (value) => {
      expect(await refusal(value, null)).toContain(`${value} is null or empty`);
    },
  );
});
