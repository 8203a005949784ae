/** A Space without a server of its own: its two PostgreSQL servers are a provider's, its S3 server is a service. */
import { type ExecFileException, execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { applyExamples, runDemo } from '../space/example.ts';
import { type OwnPostgres, startOwnPostgres } from '../space/testing/own-postgres.ts';
import { granted, type Provider, startProvider } from './support/own-bucket.ts';
import { install, uninstall, valuesForAnother } from './support/releases.ts';
import {
  capsule,
  databaseUrl,
  gone,
  installed,
  kube,
  ledgerOf,
  ready,
  runningPod,
  unique,
} from './support/space.ts';
import { until } from './support/until.ts';

const name = unique('lodge');
const lodge = { space: name, namespace: name };
const lodgeServices = `${name}-services`;
const MOVE = resolve(import.meta.dirname, '../move/main.ts');

/** An entry of `postgres.servers`. */
function furtherOf(of: string, { external }: OwnPostgres, existingSecret: string): object {
  const { acceptOpenDatabases: _, ...server } = external;
  return { name: of, existingSecret, ...server };
}

describe('a Space on engines of one’s own', () => {
  const { image } = installed.engines.postgres;
  let postgres: OwnPostgres;
  let annex: OwnPostgres;
  let s3: Provider;
  let inside: string;
  /** Databases of tenants; spares have longer names. */
  const databases = (server = postgres) =>
    server.rows("select datname from pg_database where datname ~ '^spc_[0-9a-f]{40}$'");
  const story = () => runDemo(kube, inside, ledgerOf(inside, name));
  /** As somebody types it; calls back with how it ended. */
  const move = (
    args: readonly string[],
    ended: (error: ExecFileException | null, out: string, err: string) => void,
  ) =>
    execFile(
      process.execPath,
      [MOVE, 'household', ...args, '--space', name],
      { env: { ...process.env, SPACE_CLUSTER: installed.cluster } },
      ended,
    );
  const moved = (...args: string[]) =>
    new Promise<{ code: number; said: string }>((done) => {
      move(args, (error, out, err) => done({ code: error === null ? 0 : 1, said: `${out}${err}` }));
    });

  beforeAll(async () => {
    [postgres, annex, s3] = await Promise.all([
      startOwnPostgres(kube, unique('databases'), image),
      startOwnPostgres(kube, unique('annex'), image),
      startProvider(unique('files')),
    ]);
    const values = await valuesForAnother();
    await install(lodge, {
      ...values,
      postgres: { external: postgres.external, servers: [furtherOf('annex', annex, 'pg-annex')] },
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
      secret('pg-annex', { password: annex.password }),
      secret('s3-of-ours', { 'access-key': id, 'secret-key': key }),
    );
    await applyExamples(kube, lodge, installed.image);
    inside = (await ready('capsule', 'household', lodge.namespace)).status.namespace;
    await ready('assistant', 'ledger', lodge.namespace);
  });

  afterAll(async () => {
    await kube.remove('capsule', 'household', lodge.namespace);
    await gone('capsule', 'household', lodge.namespace);
    await uninstall(lodge, s3.namespace, postgres.namespace, annex.namespace);
  });

  it('runs neither itself, and is no superuser of the PostgreSQL that it uses', async () => {
    expect(await kube.list('statefulset', lodgeServices)).toEqual([]);
    expect(await kube.list('persistentvolumeclaim', lodgeServices)).toEqual([]);
    const own = "rolname like 'space\\_%' or rolname like 'spc\\_%'";
    expect(await postgres.rows(`select count(*) > 2, bool_or(rolsuper) from pg_roles where ${own}`)).toEqual([
      't|f',
    ]);
  });

  it('gives an Assistant its database there, by a certificate that it verifies', async () => {
    const { entry, balances } = await story();
    expect(balances.map(({ account }) => account).sort()).toEqual(
      entry.lines.map(({ account }) => account).sort(),
    );
    const url = await databaseUrl(inside, 'ledger');
    expect(url.searchParams.get('sslmode')).toBe('verify-full');
    expect(await databases()).toContain(url.pathname.slice(1));
    const ssl = `select distinct ssl from pg_stat_ssl join pg_stat_activity using (pid) where usename = '${url.username}'`;
    // The ledger ends a session that it has not used for a while.
    const used = await until('a session of the ledger', async () => {
      await story();
      const rows = await postgres.rows(ssl);
      return rows.length > 0 && rows;
    });
    expect(used).toEqual(['t']);
  });

  it('stores its files there', async () => {
    const text = unique('a-statement');
    const path = '/v1/objects/data/statement';
    expect(await granted(inside, 'ledger', 'PUT', path, text)).toMatchObject({ status: 200 });
    expect(await granted(inside, 'ledger', 'GET', path)).toMatchObject({ status: 200, text });
    expect(await s3.holds(text)).toBe(1);
  });

  it('continues after the server was unavailable', async () => {
    await postgres.crash();
    const { balances } = await until('the ledger to answer again', story);
    expect(balances).toHaveLength(2);
    const attic = { ...capsule('attic'), metadata: { name: 'attic', namespace: lodge.namespace } };
    await kube.apply(attic);
    await ready('capsule', 'attic', lodge.namespace);
    await kube.remove('capsule', 'attic', lodge.namespace);
    await gone('capsule', 'attic', lodge.namespace);
    expect((await runningPod(inside, 'ledger')).status.containerStatuses[0].restartCount).toBeLessThan(5);
  });

  it('moves a Capsule to another server and back, by a command that is killed and given again', async () => {
    const before = await story();
    const oldUrl = await databaseUrl(inside, 'ledger');
    const asLedger = (server: OwnPostgres, sql: string) =>
      server.rows(`SET ROLE "${oldUrl.username}"; ${sql}`, oldUrl.pathname.slice(1));
    await asLedger(
      postgres,
      `CREATE EXTENSION vector; CREATE TABLE note (text text, meaning vector(3));
       INSERT INTO note VALUES ('cat', '[1,0,0]'), ('car', '[0,1,0]'), ('sun', '[0,0,1]');
       CREATE INDEX ON note USING hnsw (meaning vector_cosine_ops)`,
    );
    const nearest = (server: OwnPostgres) =>
      asLedger(server, "SELECT text FROM note ORDER BY meaning <=> '[0.1,0.9,0.2]' LIMIT 1");
    expect(await moved('cellar', '--image', image)).toMatchObject({
      code: 1,
      said: expect.stringMatching(/cellar/),
    });

    const early = Promise.withResolvers<string>();
    const cut = move(['annex', '--image', image], (_, out, err) => early.resolve(`${out}${err}`));
    const begun = until('the copy to be begun', async () => (await databases(annex)).length > 0);
    expect(await Promise.race([begun, early.promise])).toBe(true);
    cut.kill('SIGKILL');
    expect((await moved('annex', '--image', image)).said).toMatch(/"assistants": \[\s*"ledger"\s*\]/);
    expect(await databases()).toEqual([]);
    const url = await until('the new URL', async () => {
      const now = await databaseUrl(inside, 'ledger');
      return now.host === oldUrl.host ? undefined : now;
    });
    expect(await databases(annex)).toContain(url.pathname.slice(1));
    const after = await until('the ledger to answer there', story);
    expect(after.balances).toEqual(before.balances);
    expect(await nearest(annex)).toEqual(['car']);

    expect(await moved('main', '--image', image)).toMatchObject({ code: 0 });
    expect(await databases(annex)).toEqual([]);
    expect((await databases()).length).toBeGreaterThan(0);
    const back = await until('the ledger to answer here', story);
    expect(back.balances).toEqual(before.balances);
    expect(await nearest(postgres)).toEqual(['car']);
  });

  it('leaves nothing of a deleted Capsule on either', async () => {
    await kube.remove('capsule', 'household', lodge.namespace);
    await gone('capsule', 'household', lodge.namespace);
    expect(await databases()).toEqual([]);
    expect(await s3.holds('a-statement')).toBe(0);
  });
});
