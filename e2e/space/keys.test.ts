/** The program that maintains a Space's keys, with the role that the chart gives it, on a real API server. */

import { createHash, generateKeyPairSync, X509Certificate } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { grantKeyId } from '@space/manifests';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseGrantKeys } from '../../brokers/objectstore/byok/grants/verify.ts';
import { parseGrantKey } from '../../operator/grants/sign.ts';
import { adviceOn } from '../../operator/keys/advice.ts';
import { type Cluster, clusterOf } from '../../operator/keys/cluster.ts';
import { keepKeys } from '../../operator/keys/keep.ts';
import { type KeysOptions, keysOptions } from '../../operator/keys/options.ts';
import { type ApiServer, startApiServer } from '../../testing/api-server.ts';
import { eventually } from '../../testing/eventually.ts';
import { findTool } from '../cluster/tools.ts';
import { CHART, SOME_IMAGES } from './chart.ts';
import { finish } from './kube.ts';
import type { KubeObject } from './kube-object.ts';
import { forceFlags } from './release.ts';

const SYSTEM = 'home-system';
const SERVICES = 'home-services';
const DAY_MS = 86_400_000;

let directory: string;
let helm: string;
let server: ApiServer;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'space-keys-'));
  helm = await findTool('helm', directory);
  server = await startApiServer();
  await writeFile(join(directory, 'kubeconfig'), server.kubeconfig, { mode: 0o600 });
  await post('/api/v1/namespaces', { metadata: { name: 'home' } });
});
afterAll(async () => {
  await server?.stop();
  await rm(directory, { recursive: true, force: true });
});

const get = <T = KubeObject>(path: string) => server.client.call<T>({ method: 'GET', path });
const post = (path: string, body: object) => server.client.call<KubeObject>({ method: 'POST', path, body });
const core = (kind: string, namespace: string, name = '') =>
  `/api/v1/namespaces/${namespace}/${kind}/${name}`;
const secretsOf = async (namespace: string) =>
  (await get<{ items: KubeObject[] }>(core('secrets', namespace))).items.filter(
    ({ type }) => !String(type).startsWith('helm.sh/'),
  );
const remove = (path: string) => server.client.call({ method: 'DELETE', path, body: {} });
const merge = (path: string, body: object) =>
  server.client.call({ method: 'PATCH', path, contentType: 'application/merge-patch+json', body });

async function read(namespace: string, name: string, key: string): Promise<string> {
  const { data } = await get(core('secrets', namespace, name));
  return Buffer.from(data[key] ?? '', 'base64').toString('utf8');
}
const write = (namespace: string, name: string, key: string, text: string) =>
  merge(core('secrets', namespace, name), { data: { [key]: Buffer.from(text).toString('base64') } });

/** No controller runs a hook's Job here, nor any other. */
async function upgrade(...set: readonly string[]): Promise<void> {
  const run = (...args: string[]) =>
    finish(helm, [...args, '--namespace', 'home', '--kubeconfig', join(directory, 'kubeconfig')]);
  const args = [
    'upgrade',
    '--install',
    'home',
    CHART,
    '--skip-crds',
    '--no-hooks',
    ...SOME_IMAGES,
    ...(await forceFlags(run)),
  ];
  const values = ['objectStore.dataPlane.byok=true', ...set].flatMap((value) => ['--set', value]);
  const { code, stderr } = await run(...args, ...values);
  if (code !== 0) throw new Error(stderr);
}

interface Outcome {
  readonly refused: number;
  readonly told: readonly string[];
}

/** Runs the program as the release's Job would, with its account and arguments; for `adopt` with the hook's role. */
async function asJob(options: KeysOptions, now = new Date()) {
  const account = core('serviceaccounts', SYSTEM, 'home-keys/token');
  const { status } = await post(account, {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenRequest',
    spec: {},
  });
  const told: string[] = [];
  const tell = (did: string, what: string, why = '') => told.push([did, what, why].join(' ').trim());
  const run = createHash('sha256').update(String(Math.random())).digest('hex').slice(0, 8);
  return {
    ...options,
    cluster: clusterOf(server.clientOf(status.token), `space-keys-${run}`),
    now,
    tell,
    told,
  };
}

async function optionsOfRelease(): Promise<KeysOptions> {
  const { spec } = await get(`/apis/batch/v1/namespaces/${SYSTEM}/cronjobs/home-keys`);
  const [{ env, command }] = spec.jobTemplate.spec.template.spec.containers;
  expect(command).toEqual(['node', '/app/keys.mjs', 'keep']);
  return keysOptions.parse(JSON.parse(env[0].value));
}

async function keep(now?: Date): Promise<Outcome> {
  const run = await asJob(await optionsOfRelease(), now);
  return { refused: await keepKeys(run), told: run.told };
}

/** All secret values, by where they are. */
async function everything(): Promise<Readonly<Record<string, string>>> {
  const all: Record<string, string> = {};
  for (const namespace of [SYSTEM, SERVICES])
    for (const { metadata, data } of await secretsOf(namespace))
      for (const [key, text] of Object.entries(data ?? {}))
        all[`${namespace}/${metadata.name}/${key}`] = String(text);
  return all;
}

const serial = async (name: string) =>
  new X509Certificate(await read(SERVICES, name, 'tls.crt')).serialNumber;

describe('the keys of a Space', () => {
  it('are created by the first run, each where it belongs, and kept by every other', async () => {
    await upgrade();
    expect(await everything()).toEqual({});
    const first = await keep();
    expect(first.refused).toBe(0);
    expect((await secretsOf(SYSTEM)).map(({ metadata }) => metadata.name).sort()).toEqual([
      'console-session',
      'console-tls',
      'db-provisioner',
      'egress-observer',
      'egress-provisioner',
      'objectstore-grants',
      'objectstore-provisioner',
    ]);
    // The broker's own parser reads it, which refuses a kid that does not belong to its key.
    expect(parseGrantKeys(await read(SERVICES, 'objectstore-grants', 'keys')).size).toBe(1);
    const made = await everything();
    expect(Object.keys(made).length).toBeGreaterThan(25);
    expect(await keep()).toEqual({ refused: 0, told: [] });
    await upgrade();
    expect(await keep()).toEqual({ refused: 0, told: [] });
    expect(await everything()).toEqual(made);
  });

  it('are reported by the missing right if a Role lacks a verb, and are maintained once it is back', async () => {
    const made = await everything();
    const path = `/apis/rbac.authorization.k8s.io/v1/namespaces/${SERVICES}/roles/home-keys`;
    const { rules } = await get<{ rules: { verbs: string[] }[] }>(path);
    await merge(path, { rules: rules.map((rule) => ({ ...rule, verbs: ['patch'] })) });
    // A changed Role is in force a moment later.
    const failure = await eventually(
      () =>
        keep().then(
          () => undefined,
          (error: unknown) => error,
        ),
      { what: 'the verbs to be gone' },
    );
    expect(String(failure)).toMatch(/403 .*home-keys" cannot get resource "configmaps"/);
    expect(adviceOn(failure)).toMatch(/Restore its Roles with helm upgrade/);
    await merge(path, { rules });
    const outcome = await eventually(() => keep(), { what: 'the verbs to be back' });
    expect(outcome).toEqual({ refused: 0, told: [] });
    expect(await everything()).toEqual(made);
  });

  it('are in no record of the release, and no two renderings differ', async () => {
    const values = Object.values(await everything()).map((text) =>
      Buffer.from(text, 'base64').toString('utf8'),
    );
    const { items } = await get<{ items: KubeObject[] }>(core('secrets', 'home'));
    const records = items.filter(({ type }) => type === 'helm.sh/release.v1');
    expect(records.length).toBeGreaterThan(1);
    for (const { data } of records) {
      const packed = Buffer.from(Buffer.from(data['release'], 'base64').toString('utf8'), 'base64');
      const text = gunzipSync(packed).toString('utf8');
      expect(text).toContain('db-broker');
      for (const value of values) {
        expect(text).not.toContain(JSON.stringify(value).slice(1, -1));
        expect(text).not.toContain(Buffer.from(value).toString('base64'));
      }
    }
    const render = () => finish(helm, ['template', 'home', CHART, '--namespace', 'home', ...SOME_IMAGES]);
    expect((await render()).stdout).toBe((await render()).stdout);
  });

  it('are not created again if they existed once, by the record alone and by a volume alone', async () => {
    const claim = {
      metadata: { name: 'data-postgres-0' },
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
    };
    await post(core('persistentvolumeclaims', SERVICES), claim);
    await keep();
    const kept = await get(core('secrets', SERVICES, 'db-broker-keys'));
    await remove(core('secrets', SERVICES, 'db-broker-keys'));
    const gone = await keep();
    expect(gone.refused).toBe(1);
    expect(gone.told.join()).toMatch(
      /^refused home-services\/db-broker-keys it existed and is missing, and no URL .* remove db-broker-keys from ConfigMap home-services\/space-keys and annotation platform.space\/keys of volume claim home-services\/data-postgres-0/,
    );
    await remove(core('configmaps', SERVICES, 'space-keys'));
    expect((await keep()).told.join()).toMatch(/db-broker-keys .* remove db-broker-keys from annotation/);
    await merge(core('persistentvolumeclaims', SERVICES, 'data-postgres-0'), {
      metadata: { annotations: { 'platform.space/keys': null } },
    });
    await post(core('secrets', SERVICES), { metadata: { name: 'db-broker-keys' }, data: kept['data'] });
    expect(await keep()).toEqual({ refused: 0, told: [] });
  });

  it('that seal sessions are created again if they are gone, since nothing was stored with them', async () => {
    const before = await read(SYSTEM, 'console-session', 'keys');
    await remove(core('secrets', SYSTEM, 'console-session'));
    expect(await keep()).toEqual({ refused: 0, told: [`made ${SYSTEM}/console-session`] });
    expect(await read(SYSTEM, 'console-session', 'keys')).not.toBe(before);
  });

  it('are refused in another format, and the others are maintained nevertheless', async () => {
    const token = await read(SYSTEM, 'db-provisioner', 'token');
    await write(SYSTEM, 'db-provisioner', 'token', 'hunter2');
    await remove(core('secrets', SERVICES, 'postgres-tls'));
    const { refused, told } = await keep();
    expect(refused).toBe(1);
    expect(told).toEqual([
      expect.stringMatching(/^refused .*home-system\/db-provisioner its key token is not spc_prv_/),
      'made home-services/postgres-tls',
    ]);
    expect(await read(SYSTEM, 'db-provisioner', 'token')).toBe('hunter2');
    await write(SYSTEM, 'db-provisioner', 'token', token);
  });

  it('that both namespaces need are copied to the one that lost its own', async () => {
    const token = await read(SERVICES, 'db-provisioner', 'token');
    for (const [namespace, name] of [
      [SYSTEM, 'db-provisioner'],
      [SERVICES, 'db-provisioner'],
    ] as const) {
      await remove(core('secrets', namespace, name));
      expect((await keep()).told).toEqual([`made ${namespace}/${name}`]);
      expect(await read(namespace, name, 'token')).toBe(token);
    }
  });

  it('of grants are kept while they are exchanged, and the operator’s is always among the public ones', async () => {
    const keys = () => read(SERVICES, 'objectstore-grants', 'keys');
    const [first, public1] = [await read(SYSTEM, 'objectstore-grants', 'key'), await keys()];
    expect(JSON.parse(public1).keys.map(({ kid }: { kid: string }) => kid)).toEqual([
      parseGrantKey(first).kid,
    ]);
    const next = generateKeyPairSync('ed25519');
    const { x = '' } = next.publicKey.export({ format: 'jwk' });
    const jwk = { kty: 'OKP', crv: 'Ed25519', x, kid: grantKeyId(x) };
    const both = JSON.stringify({ keys: [...JSON.parse(public1).keys, jwk] });
    await write(SERVICES, 'objectstore-grants', 'keys', both);
    const second = next.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
    await write(SYSTEM, 'objectstore-grants', 'key', second);
    expect(await keep()).toEqual({ refused: 0, told: [] });
    expect(await keys()).toBe(both);
    // An administrator who removed the wrong key is helped.
    await write(SERVICES, 'objectstore-grants', 'keys', public1);
    await keep();
    expect(JSON.parse(await keys()).keys).toEqual([jwk]);
  });

  it('are left alone if a Secret is named, and the role does not name them either', async () => {
    await upgrade('existingSecrets.s3Root=mine');
    const { data } = await get(core('secrets', SERVICES, 's3-root'));
    await remove(core('secrets', SERVICES, 's3-root'));
    expect(await keep()).toEqual({ refused: 0, told: [] });
    const { rules } = await get(
      '/apis/rbac.authorization.k8s.io/v1/namespaces/home-services/roles/home-keys',
    );
    expect(JSON.stringify(rules)).not.toContain('s3-root');
    await post(core('secrets', SERVICES), { metadata: { name: 's3-root' }, data });
    await upgrade();
  });
});

describe('the certificates of a Space', () => {
  it('are renewed in time, each by itself, and all after their CA', async () => {
    const names = ['space-ca', 'db-broker-tls', 'postgres-tls'];
    const serials = () => Promise.all(names.map(serial));
    const [authority, broker, postgres] = await serials();
    await remove(core('secrets', SERVICES, 'postgres-tls'));
    expect((await keep()).told).toEqual(['made home-services/postgres-tls']);
    expect((await serials()).slice(0, 2)).toEqual([authority, broker]);
    expect((await serials())[2]).not.toBe(postgres);

    const later = new Date(Date.now() + 366 * DAY_MS);
    expect((await keep(later)).told.toSorted()).toEqual([
      'renewed home-services/db-broker-tls a third of its lifetime is over',
      'renewed home-services/objectstore-broker-tls a third of its lifetime is over',
      'renewed home-services/platform-assistant-egress-tls a third of its lifetime is over',
      'renewed home-services/postgres-tls a third of its lifetime is over',
      'renewed home-services/s3-tls a third of its lifetime is over',
      'renewed home-system/console-tls a third of its lifetime is over',
    ]);
    expect((await serials())[0]).toBe(authority);

    // The console learns when each certificate ends.
    const told = JSON.parse((await get(core('configmaps', SYSTEM, 'space-ca')))['data']['certificates.json']);
    expect(Object.keys(told)).toHaveLength(6);
    for (const service of ['db-broker', 'postgres'])
      expect(told[service]).toBe(
        new X509Certificate(await read(SERVICES, `${service}-tls`, 'tls.crt')).validToDate.toISOString(),
      );
    await remove(core('secrets', SERVICES, 'space-ca'));
    await keep(later);
    const root = (await get(core('configmaps', SERVICES, 'space-ca')))['data']['ca.crt'];
    expect((await get(core('configmaps', SYSTEM, 'space-ca')))['data']['ca.crt']).toBe(root);
    expect(new X509Certificate(root).serialNumber).not.toBe(authority);
    for (const name of names.slice(1)) {
      const certificate = new X509Certificate(await read(SERVICES, name, 'tls.crt'));
      expect(certificate.verify(new X509Certificate(root).publicKey)).toBe(true);
    }
    expect(await keep(later)).toEqual({ refused: 0, told: [] });
  });

  it('follow a CA that is exchanged in steps, and the former one is trusted until they have', async () => {
    const begun = Date.now();
    const after = async (minutes: number) => (await keep(new Date(begun + minutes * 60_000))).told;
    const root = async (namespace = SYSTEM) =>
      (await get(core('configmaps', namespace, 'space-ca')))['data']['ca.crt'] as string;
    const signs = () => read(SERVICES, 'space-ca', 'tls.crt');
    await after(0);
    const former = await signs();
    await merge(core('secrets', SERVICES, 'space-ca'), {
      metadata: { annotations: { 'platform.space/exchange': '2026-11-25' } },
    });
    expect(await after(0)).toEqual([
      'updated home-services/space-ca another is trusted beside it, since it was asked for',
    ]);
    const both = await root();
    expect([both.startsWith(former), both.length > former.length, await root(SERVICES)]).toEqual([
      true,
      true,
      both,
    ]);
    expect(await after(44)).toEqual([]);
    const renewed = await after(45);
    expect(renewed[0]).toBe('updated home-services/space-ca the next one signs from now on');
    expect(renewed.slice(1).every((line) => line.endsWith('-tls it is of another authority'))).toBe(true);
    expect(renewed).toHaveLength(7);
    const next = await signs();
    expect(await root()).toBe(next + former);
    expect(await after(90)).toEqual(['updated home-services/space-ca the former one is trusted no more']);
    expect([await root(), await root(SERVICES)]).toEqual([next, next]);
    const secret = await get(core('secrets', SERVICES, 'space-ca'));
    expect(Object.keys(secret['data']).toSorted()).toEqual(['tls.crt', 'tls.key']);
    expect(await after(1_000)).toEqual([]);
  });

  it('do not exist if TLS is off, and the URLs follow', async () => {
    await upgrade('tls.enabled=false');
    expect((await keep()).told).toEqual([
      'updated home-services/db-admin url followed its other keys',
      'updated home-services/objectstore-registry url followed its other keys',
    ]);
    await upgrade();
    await keep();
  });
});

describe('a run', () => {
  /** Ends as a crash would, at a chosen call. */
  function ending(cluster: Cluster, calls: number): Cluster {
    let left = calls;
    const once =
      <A extends readonly unknown[], R>(call: (...args: A) => Promise<R>, after: boolean) =>
      async (...args: A): Promise<R> => {
        left -= 1;
        if (left < 0 && !after) throw new Error('killed');
        const result = await call(...args);
        if (left < 0) throw new Error('killed');
        return result;
      };
    const { read, create, change } = cluster;
    return { read, create: once(create, calls % 2 === 0), change: once(change, calls % 2 === 0) };
  }

  it('that was killed anywhere is completed by the next, which changes nothing that was created', async () => {
    const options = await optionsOfRelease();
    for (let calls = 0; calls < 25; calls += 1) {
      for (const namespace of [SYSTEM, SERVICES]) {
        for (const { metadata } of await secretsOf(namespace))
          await remove(core('secrets', namespace, metadata.name));
        for (const name of ['space-ca', 'space-keys'])
          await remove(core('configmaps', namespace, name)).catch(() => undefined);
      }
      await merge(core('persistentvolumeclaims', SERVICES, 'data-postgres-0'), {
        metadata: { annotations: { 'platform.space/keys': null } },
      });
      const run = await asJob(options);
      await keepKeys({ ...run, cluster: ending(run.cluster, calls) }).catch(() => undefined);
      const before = await everything();
      expect((await keep()).refused).toBe(0);
      const after = await everything();
      expect(after).toMatchObject(before);
      expect(await keep()).toEqual({ refused: 0, told: [] });
      expect(await everything()).toEqual(after);
    }
  });

  it('beside another creates one set of keys, and the slower one ends without creating any', async () => {
    for (const { metadata } of await secretsOf(SERVICES))
      await remove(core('secrets', SERVICES, metadata.name));
    await remove(core('secrets', SYSTEM, 'db-provisioner'));
    await remove(core('configmaps', SERVICES, 'space-keys'));
    await merge(core('persistentvolumeclaims', SERVICES, 'data-postgres-0'), {
      metadata: { annotations: { 'platform.space/keys': null } },
    });
    const options = await optionsOfRelease();
    const runs = await Promise.all([asJob(options), asJob(options), asJob(options)]);
    await Promise.allSettled(runs.map((run) => keepKeys(run)));
    const { told } = await keep();
    expect(told.filter((line) => !line.startsWith('made'))).toEqual([]);
    // Several runs may write the same copy.
    const made = [...runs.flatMap((run) => run.told), ...told].filter(
      (line) => line.startsWith(`made ${SERVICES}`) && !/(egress|objectstore)-provisioner$/.test(line),
    );
    expect(new Set(made).size).toBe(made.length);
    expect(await read(SYSTEM, 'db-provisioner', 'token')).toBe(
      await read(SERVICES, 'db-provisioner', 'token'),
    );
    expect(await keep()).toEqual({ refused: 0, told: [] });
  });

  it('are recorded on the volumes of the Space’s own servers alone, and it may change no other', async () => {
    const claims = core('persistentvolumeclaims', SERVICES);
    await post(claims, {
      metadata: { name: 'data-s3-0' },
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
    });
    await merge(`${claims}data-postgres-0`, { metadata: { annotations: { 'platform.space/keys': null } } });
    const recorded = async (name: string) =>
      (await get(`${claims}${name}`)).metadata.annotations?.['platform.space/keys'];
    const may = async (verb: string) => {
      const path = `/apis/rbac.authorization.k8s.io/v1/namespaces/${SERVICES}/roles/home-keys`;
      const { rules } = await get<{ rules: Record<string, string[]>[] }>(path);
      return rules
        .filter(
          ({ resources, verbs }) => resources?.includes('persistentvolumeclaims') && verbs?.includes(verb),
        )
        .flatMap(({ resourceNames }) => resourceNames);
    };
    const postgres = [
      'postgres.external.host=pg.db.svc',
      'postgres.external.assistants.addresses={10.96.3.4}',
      'postgres.external.ca=PEM',
      'postgres.external.cidrs={203.0.113.0/28}',
      'existingSecrets.dbAdmin=pg-admin',
      'existingSecrets.objectStoreRegistry=pg-objects',
    ];
    await upgrade(...postgres);
    expect((await keep()).refused).toBe(0);
    expect(await recorded('data-postgres-0')).toBe(undefined);
    expect(await recorded('data-s3-0')).toContain('objectstore-keys');
    expect([await may('get'), await may('patch')]).toEqual([['data-postgres-0', 'data-s3-0'], ['data-s3-0']]);

    await upgrade(
      ...postgres,
      'objectStore.external.endpoint=https://s3.example.org',
      'objectStore.external.bucket=mine',
      'objectStore.external.cidrs={203.0.113.7/32}',
      'existingSecrets.s3Root=s3-mine',
    );
    expect((await keep()).refused).toBe(0);
    expect([await may('get'), await may('patch')]).toEqual([['data-postgres-0', 'data-s3-0'], []]);
    // What such a volume records still counts.
    await remove(core('configmaps', SERVICES, 'space-keys'));
    await remove(core('secrets', SERVICES, 'objectstore-keys'));
    expect((await keep()).told.join()).toMatch(
      /refused .*objectstore-keys .* of volume claim home-services\/data-s3-0/,
    );
  });
});
