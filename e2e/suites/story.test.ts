import { describe, expect, it } from 'vitest';
import {
  databaseUrl,
  kube,
  ledgerOf,
  namespaceOf,
  OWN_ENGINES,
  openDatabase,
  ready,
  runningPod,
  superuserRows,
} from './support/space.ts';

describe('the example Assistant', async () => {
  await ready('assistant', 'ledger');
  const namespace = await namespaceOf('household');
  const pod = await runningPod(namespace, 'ledger');

  it('runs in gVisor, and sees its kernel', async () => {
    expect(pod.spec.runtimeClassName).toBe('gvisor');
    const version = await kube.exec(namespace, pod.metadata.name, ['cat', '/proc/version']);
    expect(version.stdout).toMatch(/gvisor/i);
  });

  it('runs as an unprivileged user, with nothing to write on and no token', async () => {
    const { securityContext } = pod.spec.containers[0];
    expect(securityContext).toMatchObject({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    expect(pod.spec.automountServiceAccountToken).toBe(false);
    const look = await kube.exec(namespace, pod.metadata.name, [
      'sh',
      '-c',
      'id -u; touch /home/node/probe; ls /var/run/secrets/kubernetes.io; true',
    ]);
    expect(look.stdout.split('\n')[0]).not.toBe('0');
    expect(look.stderr).toMatch(/Read-only file system/);
    expect(look.stderr).toMatch(/No such file or directory/);
  });

  it('reads its manifest, genesis and credentials from files and environment', async () => {
    const look = await kube.exec(namespace, pod.metadata.name, [
      'node',
      '-e',
      `const { readFileSync: read } = require('node:fs');
       const { CAPSULE_ID, ASSISTANT_ID, DATABASE_URL } = process.env;
       const manifest = JSON.parse(read('/etc/space/manifest/manifest.json', 'utf8'));
       console.log(JSON.stringify({
         CAPSULE_ID, ASSISTANT_ID, id: manifest.platform.id,
         genesis: read('/etc/space/genesis/genesis.txt', 'utf8') === manifest.platform.genesis,
         url: read('/etc/space/credentials/DATABASE_URL', 'utf8') === DATABASE_URL,
       }))`,
    ]);
    expect(JSON.parse(look.stdout)).toEqual({
      CAPSULE_ID: 'household',
      ASSISTANT_ID: 'ledger',
      id: 'ledger',
      genesis: true,
      url: true,
    });
  });

  it('answers through its Service', async () => {
    expect(await ledgerOf(namespace)('/healthz')).toBeTypeOf('object');
  });

  it('opens its own database with its URL, and no other', async () => {
    const url = await databaseUrl(namespace, 'ledger');
    const own = url.pathname.slice(1);
    expect((await openDatabase(url, own)).stdout.trim()).toBe(own);
    const others = (await superuserRows('select datname from pg_database')).filter((name) => name !== own);
    expect(others).toEqual(expect.arrayContaining(['postgres', 'template1', 'space_registry']));
    // A provider's `template1` is open to everybody (`acceptOpenDatabases`), and there is nothing in it.
    const accepted = OWN_ENGINES === undefined ? [] : ['template1'];
    for (const other of others.filter((name) => !accepted.includes(name))) {
      const { code, stderr } = await openDatabase(url, other);
      expect([other, code, stderr]).toEqual([
        other,
        2,
        expect.stringMatching(
          /no pg_hba.conf entry|pg_hba.conf rejects connection|permission denied for database|not currently accepting connections/,
        ),
      ]);
    }
  });

  it('finds the nearest vector in its database, and has no extension that is not offered', async () => {
    const url = await databaseUrl(namespace, 'ledger');
    const run = (statement: string) =>
      openDatabase(url, url.pathname.slice(1), undefined, `BEGIN; ${statement}; ROLLBACK`);
    const nearest = await run(`CREATE EXTENSION vector;
      CREATE TABLE note (text text, meaning vector(3));
      INSERT INTO note VALUES ('cat', '[1,0,0]'), ('car', '[0,1,0]'), ('sun', '[0,0,1]');
      CREATE INDEX ON note USING hnsw (meaning vector_cosine_ops);
      SELECT text FROM note ORDER BY meaning <=> '[0.1,0.9,0.2]' LIMIT 1`);
    expect([nearest.code, nearest.stdout.trim(), nearest.stderr]).toEqual([0, 'car', '']);
    // A provider's server has them, and lets no tenant create them.
    const refusal = (extension: string) =>
      OWN_ENGINES === undefined
        ? `"${extension}" is not available`
        : `permission denied to create extension "${extension}"`;
    for (const extension of ['dblink', 'postgres_fdw', 'file_fdw']) {
      const { code, stderr } = await run(`CREATE EXTENSION ${extension}`);
      expect([code, stderr]).toEqual([1, expect.stringContaining(refusal(extension))]);
    }
  });
});
