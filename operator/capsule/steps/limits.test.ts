import { expect, test } from 'vitest';
import { query } from '../../../brokers/db/testing/postgres.ts';
import { eventually } from '../../../testing/eventually.ts';
import { CAPSULE, type Capsule, RUNTIME_CLASS, SECRET, type SecretObject } from '../../kinds.ts';
import { workloadSecretName } from '../../names.ts';
import { eachFixture } from '../../testing/fixture.ts';
import type { TestSpace } from '../../testing/space.ts';
import type { TestEnvironment } from '../../testing/test-environment.ts';

/** What a Capsule may have of the database server, on a real API server and a real PostgreSQL. */

let environment: TestEnvironment;
let space: TestSpace;
let home: string;
eachFixture(async (fixture) => {
  ({ environment, space, home } = fixture);
  await space.start();
});

const usage = async () => (await space.get<Capsule>(CAPSULE, home))?.status?.usage?.database;
const roles = () =>
  environment.database.registry<{ app: string; connections: number }>(
    `SELECT d.app_id AS app, r.rolconnlimit AS connections FROM broker.database d JOIN pg_roles r ON r.rolname = d.name
     WHERE d.capsule_id = $1 AND d.state = 'ready' ORDER BY 1`,
    [home],
  );

/** The database of its Assistant gets some 50 MiB, which the broker knows. */
async function fill(namespace: string): Promise<void> {
  const secret = await space.get<SecretObject>(SECRET, workloadSecretName('ledger'), namespace);
  const url = Buffer.from(secret?.data?.['DATABASE_URL'] ?? '', 'base64').toString('utf8');
  await query(url, "CREATE TABLE heap AS SELECT repeat('x', 1500) AS t FROM generate_series(1, 30000)");
  await environment.database.broker.round('sizes');
}

test('the limits of the spec are effective as soon as they change, and usage is reported in coarse steps', async () => {
  const namespace = await space.settled();
  await eventually(async () => (await usage()) === '52Mi', { what: 'the usage of an empty Capsule' });
  expect(await roles()).toEqual([
    { app: '', connections: 5 },
    { app: 'ledger', connections: 5 },
  ]);
  await space.patch(CAPSULE, home, { spec: { database: { connections: 2 } } });
  await eventually(async () => (await roles()).every(({ connections }) => connections === 2), {
    what: 'the new limit of connections',
  });

  await fill(namespace);
  await space.patch(CAPSULE, home, { spec: { quota: { database: '32Mi' } } });
  await space.becomes(CAPSULE, home, 'DatabaseReady', 'False QuotaExceeded');
  await space.patch(CAPSULE, home, { spec: { quota: { database: '72Mi' } } });
  await space.becomes(CAPSULE, home, 'DatabaseReady', 'True NearQuota');
  await space.patch(CAPSULE, home, { spec: { quota: { database: null }, database: null } });
  await space.becomes(CAPSULE, home, 'DatabaseReady', 'True Ready');
  await eventually(async () => (await roles()).every(({ connections }) => connections === 5), {
    what: 'the default limit of connections',
  });
});

test.each<[string, () => Promise<unknown>, string]>([
  ['nothing may run', () => space.delete(RUNTIME_CLASS, space.names.runtimeClass), 'SandboxReady'],
  ['it is suspended', () => space.patch(CAPSULE, home, { spec: { suspend: true } }), 'Ready'],
])('a quota that is raised while %s opens the databases again', async (_, prevent, condition) => {
  await fill(await space.settled());
  await space.patch(CAPSULE, home, { spec: { quota: { database: '32Mi' } } });
  await space.becomes(CAPSULE, home, 'DatabaseReady', 'False QuotaExceeded');
  await prevent();
  await eventually(async () => (await space.condition(CAPSULE, home, condition)).startsWith('False'), {
    what: 'the operator knows',
  });
  await space.patch(CAPSULE, home, { spec: { quota: { database: null } } });
  await space.becomes(CAPSULE, home, 'DatabaseReady', 'True Ready');
});
