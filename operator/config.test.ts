import { expect, test } from 'vitest';
import { readConfig } from './config.ts';

const given = {
  SPACE_NAME: 'home',
  SPACE_NAMESPACE: 'home',
  SYSTEM_NAMESPACE: 'home-system',
  SERVICES_NAMESPACE: 'home-services',
  SANDBOX_ATTESTER_IMAGE: 'registry.test/attester:1',
  DB_BROKER_URL: 'http://db-broker.home-services.svc:8080',
};

test('variables that are not set have the defaults in docs/configuration.md', () => {
  expect(readConfig(given)).toMatchObject({
    runtimeClass: 'gvisor',
    handler: 'runsc',
    handlerReport: 'node',
    onLoss: 'keep',
    graceMs: 0,
    dbProvisionerTokenFile: '/etc/space/provisioner/token',
    healthPort: 8081,
    metricsPort: 9090,
    logLevel: 'info',
  });
});

test.each([
  ['SPACE_NAME', undefined],
  ['SPACE_NAME', 'Not A Name'],
  ['SANDBOX_ATTESTER_IMAGE', undefined],
  ['SANDBOX_HANDLER_REPORT', 'nobody'],
  ['SANDBOX_ON_LOSS', 'pray'],
  ['DB_BROKER_URL', 'ftp://somewhere'],
  ['HEALTH_PORT', '70000'],
  ['LOG_LEVEL', 'loud'],
  ['DB_BROKER_URL', 'http://plain.test'],
])('a bad %s names itself and stops the start', (name, value) => {
  expect(() =>
    readConfig({ ...given, SPACE_CA_FILE: '/ca.crt', DB_BROKER_URL: 'https://b.test', [name]: value }),
  ).toThrow(name);
});

const whole = {
  host: 'pg',
  addresses: ['10.96.3.4', 'fd00::9'],
  port: 5432,
  egress: [{ to: [{ ipBlock: { cidr: '10.96.3.4/32' } }], ports: [{ port: 5432 }] }],
};

test('each further PostgreSQL is accepted completely, or stops the start', () => {
  const read = (servers: unknown) =>
    readConfig({ ...given, FURTHER_DATABASE_SERVERS: JSON.stringify(servers) }).furtherDatabaseServers;
  const other = { ...whole, host: 'pg-b' };
  expect(readConfig(given).furtherDatabaseServers).toEqual([]);
  expect(read([whole, other])).toEqual([whole, other]);
  for (const wrong of [whole, [whole, { ...other, egress: [{ ports: [{ port: 5432 }] }] }], ['pg'], [{}]])
    expect(() => read(wrong)).toThrow('FURTHER_DATABASE_SERVERS');
});

test('an external PostgreSQL is accepted completely, or stops the start', () => {
  const read = (server: object) => readConfig({ ...given, DATABASE_SERVER: JSON.stringify(server) });
  expect(readConfig(given).databaseServer).toBeUndefined();
  expect(read(whole).databaseServer).toEqual(whole);
  for (const change of [
    { host: '' },
    { addresses: [] },
    { addresses: ['pg'] },
    { port: 0 },
    { egress: [] },
    // Without `to` it would be a way to everything.
    { egress: [{ ports: [{ port: 5432 }] }] },
    { egress: [{ to: [] }] },
    { more: 1 },
  ])
    expect(() => read({ ...whole, ...change })).toThrow('DATABASE_SERVER');
  expect(() => readConfig({ ...given, DATABASE_SERVER: '{' })).toThrow('DATABASE_SERVER');
});
