import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  assistant,
  capsule,
  databaseUrl,
  deleteCapsules,
  installed,
  kube,
  namespaceOf,
  openDatabase,
  podsOf,
  ready,
  runningPod,
  services,
  unique,
} from './support/space.ts';
import { until } from './support/until.ts';

/** Runs the commands of docs/rotation.md on a cluster. */
const name = unique('rotation');
let namespace: string;

beforeAll(async () => {
  await kube.apply(capsule(name), assistant(name, 'inside', {}, name));
  namespace = await namespaceOf(name);
  await ready('assistant', name);
});
afterAll(async () => {
  await deleteCapsules(name);
});

it('an administrator marks a rotation, an annotation asks for it, and it is served with other pods', async () => {
  const [before, pod] = [await databaseUrl(namespace, 'inside'), await runningPod(namespace, 'inside')];
  const database = before.pathname.slice(1);
  expect((await openDatabase(before, database)).stdout.trim()).toBe(database);

  const admin = ['exec', '-n', services, 'deploy/db-broker', '--', 'node', '/app/admin.mjs'];
  const marked = await kube.run([...admin, 'rotate', name, 'inside']);
  expect(marked).toMatchObject({ code: 0, stdout: '{"marked":1}\n' });
  expect((await databaseUrl(namespace, 'inside')).password).toBe(before.password);

  const value = 'platform.space/rotate=2026-11-21';
  const asked = await kube.run([
    'annotate',
    '-n',
    installed.namespace,
    'assistant',
    name,
    '--overwrite',
    value,
  ]);
  expect(asked.code).toBe(0);
  const path = '{.metadata.annotations.platform\\.space/rotated}';
  const served = await kube.run([
    ...['wait', '-n', namespace, 'secret/inside-database', '--timeout=600s'],
    `--for=jsonpath=${path}=2026-11-21`,
  ]);
  expect(served).toMatchObject({ code: 0 });

  const after = await databaseUrl(namespace, 'inside');
  expect([after.username, after.pathname]).toEqual([before.username, before.pathname]);
  expect((await openDatabase(after, database)).stdout.trim()).toBe(database);
  expect((await openDatabase(before, database)).stderr).toContain('password authentication failed');
  await until('the pods to be others', async () => {
    const pods = await podsOf(namespace, 'inside');
    return pods.length === 1 && pods[0]?.metadata.uid !== pod.metadata.uid;
  });
  const inside = await kube.exec(namespace, (await runningPod(namespace, 'inside')).metadata.name, [
    'node',
    '-p',
    'process.env.DATABASE_URL',
  ]);
  expect(inside.stdout.trim()).toBe(after.href);
  await ready('assistant', name);
});
