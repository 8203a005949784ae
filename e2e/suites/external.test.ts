/** A Space that runs no engine of its own: its PostgreSQL is a provider's, its S3 server a service. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { applyExamples, tellStory } from '../space/example.ts';
import { granted, type Provider, startProvider } from './support/own-bucket.ts';
import { type OwnPostgres, startOwnPostgres } from './support/own-postgres.ts';
import { install, uninstall, valuesOfOurs } from './support/releases.ts';
import {
  capsule,
  databaseUrl,
  gone,
  installed,
  kube,
  ready,
  runningPod,
  services,
  unique,
} from './support/space.ts';
import { until } from './support/until.ts';

const name = unique('lodge');
const lodge = { space: name, namespace: name };
const lodgeServices = `${name}-services`;

describe('a Space on engines of one’s own', () => {
  let postgres: OwnPostgres;
  let s3: Provider;
  let inside: string;
  /** Of tenants; spares have longer names. */
  const databases = () =>
    postgres.rows("select datname from pg_database where datname ~ '^spc_[0-9a-f]{40}$'");

  beforeAll(async () => {
    const imageOf = async (engine: string) =>
      (await kube.get('statefulset', engine, services))?.['spec'].template.spec.containers[0].image;
    [postgres, s3] = await Promise.all([
      imageOf('postgres').then((image) => startOwnPostgres(unique('databases'), image)),
      imageOf('s3').then((image) => startProvider(unique('files'), image)),
    ]);
    const values = await valuesOfOurs();
    await install(lodge, {
      ...values,
      postgres: { external: postgres.external },
      objectStore: { ...values.objectStore, external: s3.external },
      existingSecrets: { dbAdmin: 'pg-admin', objectStoreRegistry: 'pg-files', s3Root: 's3-of-ours' },
    });
    const secret = (of: string, stringData: object) => ({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: of, namespace: lodgeServices },
      stringData,
    });
    const { 'access-key-id': id, 'secret-access-key': key } = s3.fields;
    await kube.apply(
      secret('pg-admin', { password: postgres.password }),
      secret('pg-files', { password: postgres.password }),
      secret('s3-of-ours', { 'access-key': id, 'secret-key': key }),
    );
    await applyExamples(kube, lodge, installed.image);
    inside = (await ready('capsule', 'household', lodge.namespace)).status.namespace;
    await ready('assistant', 'ledger', lodge.namespace);
  });

  afterAll(async () => {
    await kube.remove('capsule', 'household', lodge.namespace);
    await gone('capsule', 'household', lodge.namespace);
    await uninstall(lodge, s3.namespace, postgres.namespace);
  });

  it('runs neither, and is no superuser of the one that it uses', async () => {
    expect(await kube.list('statefulset', lodgeServices)).toEqual([]);
    expect(await kube.list('persistentvolumeclaim', lodgeServices)).toEqual([]);
    const own = "rolname like 'space\\_%' or rolname like 'spc\\_%'";
    expect(await postgres.rows(`select count(*) > 2, bool_or(rolsuper) from pg_roles where ${own}`)).toEqual([
      't|f',
    ]);
  });

  it('gives an Assistant its database there, by a certificate that it verifies', async () => {
    const { entry, balances } = await tellStory(kube, inside);
    expect(balances.map(({ account }) => account).sort()).toEqual(
      entry.lines.map(({ account }) => account).sort(),
    );
    const url = await databaseUrl(inside, 'ledger');
    expect(url.searchParams.get('sslmode')).toBe('verify-full');
    expect(await databases()).toContain(url.pathname.slice(1));
    const ssl = `select bool_and(ssl) from pg_stat_ssl join pg_stat_activity using (pid) where usename = '${url.username}'`;
    expect(await postgres.rows(ssl)).toEqual(['t']);
  });

  it('keeps its files there', async () => {
    const text = unique('a-statement');
    const path = '/v1/objects/data/statement';
    expect(await granted(inside, 'ledger', 'PUT', path, text)).toMatchObject({ status: 200 });
    expect(await granted(inside, 'ledger', 'GET', path)).toMatchObject({ status: 200, text });
    expect(await s3.holds(text)).toBe(1);
  });

  it('goes on when the server was away', async () => {
    await postgres.crash();
    const { balances } = await until('the ledger to answer again', () => tellStory(kube, inside));
    expect(balances).toHaveLength(2);
    const attic = { ...capsule('attic'), metadata: { name: 'attic', namespace: lodge.namespace } };
    await kube.apply(attic);
    await ready('capsule', 'attic', lodge.namespace);
    await kube.remove('capsule', 'attic', lodge.namespace);
    await gone('capsule', 'attic', lodge.namespace);
    expect((await runningPod(inside, 'ledger')).status.containerStatuses[0].restartCount).toBeLessThan(5);
  });

  it('leaves nothing of a Capsule on either when it goes', async () => {
    await kube.remove('capsule', 'household', lodge.namespace);
    await gone('capsule', 'household', lodge.namespace);
    expect(await databases()).toEqual([]);
    expect(await s3.holds('a-statement')).toBe(0);
  });
});
