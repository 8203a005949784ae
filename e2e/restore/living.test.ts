/** What is refused if a Space exists, with a real API server and Helm. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { type ApiServer, startApiServer } from '../../testing/api-server.ts';
import { eventually } from '../../testing/eventually.ts';
import { findTool } from '../cluster/tools.ts';
import { CHART, SOME_IMAGES } from '../space/chart.ts';
import { createKube, finish, type Kube } from '../space/kube.ts';
import type { KubeObject } from '../space/kube-object.ts';
import { fill } from './fill.ts';
import type { Restore } from './model.ts';
import { claimOf, databasePod, type Rendered, statefulSet } from './pods.ts';
import { checkBackup } from './preflight/index.ts';
import { applyPeoples, refuseExistingSpace, restoreSpace } from './restore.ts';
import { putBack, secretsIn } from './secret.ts';
import type { State } from './state.ts';
import { BACKUP } from './testing/values.ts';

let directory: string;
let server: ApiServer;
let kube: Kube;
let helm: Restore['helm'];
let objects: Rendered;

const namespace = (name: string, annotations = {}): KubeObject => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name, annotations },
});
const AT = '2026-11-21T10:30:00.000Z';
const MARK = 'platform.space/restoring';
const refused = (at: string | undefined = undefined, drill = false) =>
  refuseExistingSpace({ kube, helm, space: 'home', at, drill }, objects);

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'space-restore-living-'));
  server = await startApiServer();
  const kubeconfig = join(directory, 'kubeconfig');
  await writeFile(kubeconfig, server.kubeconfig);
  const [kubectl, program] = [await findTool('kubectl', directory), await findTool('helm', directory)];
  kube = createKube(kubectl, kubeconfig);
  helm = (...args) => finish(program, ['--kubeconfig', kubeconfig, '--namespace', 'home', ...args]);
  const args = ['template', 'home', CHART, '--namespace', 'home', ...SOME_IMAGES, '--values', '-'];
  const { stdout } = await finish(program, args, JSON.stringify(BACKUP));
  objects = parseAllDocuments(stdout).flatMap((one) => (one.toJS() as KubeObject | null) ?? []);
  await kube.apply(namespace('home'), namespace('home-services'));
});
afterAll(async () => {
  await server?.stop();
  await rm(directory, { recursive: true, force: true });
});

it('accepts a cluster without the Space', async () => {
  expect(await refused()).toBe(false);
});

it.each(['postgres', 's3'])('a volume claim that is left of %s is not overwritten', async (name) => {
  const claim = claimOf(statefulSet(objects, name)!);
  await kube.apply(claim);
  await expect(refused()).rejects.toThrow(
    new RegExp(
      `volume claim home-services/${claim.metadata.name} of an earlier Space still exists: .*delete the claim if the data is lost`,
    ),
  );
  await kube.remove('persistentvolumeclaim', claim.metadata.name, 'home-services');
  await kube.run([
    ...['patch', 'persistentvolumeclaim', claim.metadata.name, '-n', 'home-services', '--type=merge'],
    ...['-p', '{"metadata":{"finalizers":null}}'],
  ]);
  expect(await refused()).toBe(false);
});

it('a restore that was begun is continued to the same moment, and to no other', async () => {
  await kube.apply(namespace('home-services', { [MARK]: AT }));
  expect(await refused(AT)).toBe(true);
  for (const other of [undefined, '2026-11-21T10:31:00.000Z'])
    await expect(refused(other)).rejects.toThrow(
      `another restore of home, to ${AT}, was interrupted: run that one again, or delete the namespaces home-services and home-system`,
    );
  await expect(refused(AT, true)).rejects.toThrow(`another restore of home, to ${AT}, was interrupted`);
  await kube.apply(namespace('home-services', { [MARK]: `${AT} (a drill)` }));
  expect(await refused(AT, true)).toBe(true);
  await expect(refused(AT)).rejects.toThrow(`to ${AT} (a drill), was interrupted`);
  await kube.run(['annotate', 'namespace', 'home-services', `${MARK}-`]);
});

it('a Secret is restored where it was lost, and not overwritten where it exists', async () => {
  const secret = (namespace: string, word: string): KubeObject => ({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: {
      ...{ name: 'grants', namespace, labels: { 'platform.space/space': 'home' } },
      annotations: { note: word, 'platform.space/open': 'true' },
    },
    type: 'Opaque',
    data: { word: Buffer.from(word).toString('base64') },
  });
  await kube.apply(namespace('home-system'));
  await kube.apply(secret('home-system', 'living'));
  const state: State = {
    space: 'home',
    namespaces: { release: 'home', system: 'home-system', services: 'home-services' },
    taken: AT,
    objects: [secret('home-services', 'saved'), secret('home-system', 'saved')],
  };
  const wordIn = async (of: string) => (await kube.get('secret', 'grants', of))?.['data'].word;
  expect(await putBack(kube, secretsIn(state, 'grants'))).toEqual(['home-services']);
  expect([await wordIn('home-services'), await wordIn('home-system')]).toEqual([
    btoa('saved'),
    btoa('living'),
  ]);
  const back = await kube.get('secret', 'grants', 'home-services');
  expect(back?.metadata.annotations).toEqual({ note: 'saved' });
  await expect(putBack(kube, secretsIn(state, 'grants'))).rejects.toThrow(
    /does not overwrite it: delete it first/,
  );
  expect(() => secretsIn(state, 'nothing')).toThrow(`the state of ${AT} has no Secret nothing`);
});

it('people’s objects are restored with all their content, and without annotations that asked for one action', async () => {
  await kube.run(['apply', '--server-side', '-f', join(CHART, 'crds')]);
  // A kind is served a moment after it is established.
  for (const kinds of ['capsules', 'assistants'])
    await eventually(async () => (await kube.run(['get', kinds, '-n', 'home'])).code === 0, {
      what: `${kinds} to be served`,
    });
  const metadata = (name: string, labels: object, annotations: object) => ({
    ...{ name, namespace: 'home', labels, annotations },
  });
  const told = { 'platform.space/open': 'true', 'platform.space/rotate': '3' };
  // It is kept: without it, its Assistants would start on the part of their data that had been restored.
  const kept = { note: 'mine', 'platform.space/restoring': 'household as of then' };
  const capsule = {
    ...{ apiVersion: 'platform.space/v1', kind: 'Capsule', spec: { quota: { assistants: 2 } } },
    metadata: metadata('household', {}, { ...kept, ...told }),
  } as KubeObject;
  const input = {
    ...{ apiVersion: 'v1', kind: 'Secret', type: 'platform.space/stored-input', data: { value: 'eA==' } },
    metadata: metadata('bank', { 'platform.space/capsule': 'household' }, { note: 'mine', ...told }),
  } as KubeObject;
  const elsewhere = { ...input, metadata: { ...input.metadata, namespace: 'home-services' } };
  await applyPeoples({ kube, namespace: 'home' }, [elsewhere, input, capsule]);
  expect(await kube.get('secret', 'bank', 'home-services')).toBeUndefined();
  const { metadata: marks, ...held } = (await kube.get('secret', 'bank', 'home'))!;
  expect(held).toMatchObject({ type: input['type'], data: input['data'] });
  expect([marks.labels, marks.annotations]).toEqual([input.metadata.labels, { note: 'mine' }]);
  const made = (await kube.get('capsule', 'household', 'home'))!;
  expect([made['spec'].quota, made.metadata.annotations]).toEqual([{ assistants: 2 }, kept]);
});

it('a moment in the future is refused before anything is checked', async () => {
  const nothing = new Proxy({}, { get: () => expect.unreachable('it asked') });
  const about = { ...(nothing as Restore), at: AT, steps: nothing, now: () => Date.parse(AT) - 1 } as Restore;
  await expect(restoreSpace(about)).rejects.toThrow(`--at ${AT} is in the future. Nothing was changed`);
});

it('a check of a backup deletes what a killed one left behind', async () => {
  const stop = new AbortController();
  const steps: Restore['steps'] = { run: (_, work) => work(undefined as never), summary: () => [] };
  const key = { access: 'an access key', secret: 'its secret' };
  const about = { kube, space: 'home', at: undefined, steps, key, signal: stop.signal } as Restore;
  const rooms = async () =>
    (await kube.run(['get', 'namespace', '-l', 'platform.space/restore-room=home', '-o', 'json'])).stdout;
  const named = async (state: 'there' | 'going') =>
    (JSON.parse(await rooms()).items as KubeObject[])
      .filter(({ metadata }) => (metadata.deletionTimestamp === undefined) === (state === 'there'))
      .map(({ metadata }) => metadata.name);
  const left = namespace('home-restore-left');
  await kube.apply({
    ...left,
    metadata: { ...left.metadata, labels: { 'platform.space/restore-room': 'home' } },
  });
  const looking = checkBackup(about, objects, false);
  await expect.poll(() => named('there'), { timeout: 240_000 }).not.toContain('home-restore-left');
  await expect.poll(() => named('there'), { timeout: 240_000 }).toHaveLength(1);
  stop.abort();
  await expect(looking).rejects.toThrow();
  expect(await named('there')).toEqual([]);
  expect(await named('going')).toHaveLength(2);
});

it('a pod that a killed command has started is continued, and one that failed is created again', async () => {
  const { metadata } = databasePod(objects, AT)!;
  const pod: KubeObject = {
    ...{ apiVersion: 'v1', kind: 'Pod', metadata: { name: metadata.name, namespace: 'home-services' } },
    spec: { automountServiceAccountToken: false, containers: [{ name: 'one', image: 'none' }] },
  };
  const ends = async (phase: string) =>
    kube.run([
      ...['patch', 'pod', pod.metadata.name, '-n', 'home-services', '--subresource=status', '--type=merge'],
      ...['-p', JSON.stringify({ status: { phase } })],
    ]);
  const uid = async () => (await kube.get('pod', pod.metadata.name, 'home-services'))?.metadata.uid;
  const about = { kube, signal: new AbortController().signal };
  await kube.apply(pod);
  const first = await uid();
  await ends('Succeeded');
  await fill(about, pod);
  expect(await uid()).toBe(first);
  await ends('Failed');
  const again = fill(about, pod);
  await expect.poll(async () => [undefined, first].includes(await uid()), { timeout: 240_000 }).toBe(false);
  await ends('Succeeded');
  await again;
});

it('an installed release is not overwritten', async () => {
  const chart = join(directory, 'chart');
  const { code, stderr } = await helm('create', chart);
  expect([code, stderr]).toEqual([0, expect.anything()]);
  await rm(join(chart, 'templates'), { recursive: true });
  expect(await helm('install', 'home', chart)).toMatchObject({ code: 0 });
  await expect(refused()).rejects.toThrow(
    /the release home is installed, and a restore does not overwrite a Space/,
  );
});
