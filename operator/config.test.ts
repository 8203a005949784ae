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

test('what is not said has the defaults that docs/configuration.md names', () => {
  expect(readConfig(given)).toMatchObject({
    runtimeClass: 'gvisor',
    handler: 'runsc',
    handlerReport: 'node',
    onLoss: 'keep',
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
