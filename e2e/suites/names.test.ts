/** Spaces whose names begin or end like another's, with Capsules whose names do: each is recognised as itself. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { KubeObject } from '../space/kube-object.ts';
import { helm, installLikeOurs, type Release, uninstall } from './support/releases.ts';
import { assistant, capsule, databaseUrl, gone, installed, kube, ready } from './support/space.ts';
import { until } from './support/until.ts';

const CAPSULES = ['lab', 'lab-x', 'x'];
const ours = installed.space;
/**
 * With the first name, namespaces of Capsules could be confused with those of the second; the third is a Capsule's
 * name, too.
 */
const others = [`${ours}-lab`, 'lab'];
const spaces = [ours, ...others];
const placeOf = (space: string) => (space === ours ? installed.namespace : space);
const release = (space: string): Release => ({ space, namespace: placeOf(space) });
const at = (space: string, object: { readonly metadata: object }) => ({
  ...object,
  metadata: { ...object.metadata, namespace: placeOf(space) },
});

beforeAll(async () => {
  for (const space of others) {
    // Files have no part in this.
    await installLikeOurs(release(space), (values) => ({
      ...values,
      objectStore: { ...values['objectStore'], enabled: false },
    }));
  }
  for (const space of spaces)
    await kube.apply(
      ...CAPSULES.map((name) => at(space, capsule(name))),
      at(space, assistant('lab', 'inside', {}, 'inside')),
    );
});

afterAll(async () => {
  for (const space of spaces) for (const name of CAPSULES) await kube.remove('capsule', name, placeOf(space));
  for (const space of others) {
    for (const name of CAPSULES) await gone('capsule', name, space).catch(() => undefined);
    await uninstall(release(space));
  }
});

/**
 * What of a Capsule's objects differs if an object was created or written again. When a condition changed does not count,
 * since it may have changed for a moment for reasons of its own, and changed back.
 */
async function standing(space: string): Promise<unknown> {
  const read = async (name: string): Promise<KubeObject | undefined> =>
    kube.get('capsule', name, placeOf(space));
  return Promise.all(
    CAPSULES.map(async (name) => {
      const found = await read(name);
      const namespace = await kube.get('namespace', found?.['status'].namespace);
      const conditions = (found?.['status'].conditions ?? []) as { readonly lastTransitionTime?: string }[];
      const told = conditions.map(({ lastTransitionTime: _, ...one }) => one);
      return [found?.metadata.uid, found?.metadata['generation'], told, namespace?.metadata.uid];
    }),
  );
}

it('all Capsules are Ready, each in a namespace of its own', async () => {
  const places = await Promise.all(
    spaces.flatMap((space) =>
      CAPSULES.map(async (name) => (await ready('capsule', name, placeOf(space))).status.namespace),
    ),
  );
  expect(new Set(places).size).toBe(9);
  for (const space of spaces) await ready('assistant', 'inside', placeOf(space));
});

it('Assistants of one name have databases of their own', async () => {
  const urls = await Promise.all(
    spaces.map(async (space) =>
      databaseUrl((await ready('capsule', 'lab', placeOf(space))).status.namespace, 'inside'),
    ),
  );
  expect(new Set(urls.map(({ username }) => username)).size).toBe(3);
});

it('the others do not change when one is uninstalled', async () => {
  const [leaves = '', stays = ''] = others;
  for (const space of [ours, stays])
    for (const name of CAPSULES) await ready('capsule', name, placeOf(space));
  const before = await Promise.all([ours, stays].map(standing));
  for (const name of CAPSULES) await kube.remove('capsule', name, leaves);
  for (const name of CAPSULES) await gone('capsule', name, leaves);
  await helm(release(leaves), ['uninstall', leaves]);
  await until('the others to be as they were', async () => {
    expect(await Promise.all([ours, stays].map(standing))).toEqual(before);
    return true;
  });
  // Both still work.
  for (const space of [ours, stays]) {
    await kube.apply(at(space, assistant('lab-x', 'after', {}, 'after')));
    await ready('assistant', 'after', placeOf(space));
  }
});
