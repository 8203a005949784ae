/**
 * What administrators do while parts of the Space are killed: they upgrade it and roll back, back it up, and restore a Capsule
 * from the backup under another name. An act that fails because a part was down is repeated, as a person would.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { DesiredAssistant } from '../population.ts';
import type { Administrators, TenantsView } from '../world.ts';
import { openBackup, removeBackup } from './backup.ts';
import { type InstalledSpace, settled } from './model.ts';
import { openRelease } from './release.ts';

const RESTORED = 'restored';
const MOST_TRIES = 20;
const BETWEEN_TRIES_MS = 2_000;
const BETWEEN_ACTS_MS = 10_000;

/** Values whose differences replace every pod, and that tenants cannot notice. */
const version = (logLevel: string, cpu: string) => ({
  ...Object.fromEntries(['operator', 'dbBroker', 'objectStore', 'egress'].map((of) => [of, { logLevel }])),
  postgres: { resources: { requests: { cpu } } },
});
const [USUAL, CHANGED] = [version('info', '100m'), version('warn', '101m')];

/** Configures a backup of the Space and returns its administrators. */
export async function openAdministrators(kept: InstalledSpace): Promise<Administrators> {
  const directory = await mkdtemp(join(tmpdir(), 'space-chaos-'));
  const release = await openRelease(kept, directory);
  const asBefore = async () => {
    await release.upgrade(release.values);
    await removeBackup(kept);
    await rm(directory, { recursive: true, force: true });
  };
  const backup = await openBackup(kept, release, directory).catch(async (error: unknown) => {
    await asBefore();
    throw error;
  });
  const { done, problems, again } = patience();
  const upgrade = (to: object) => again('upgrade', () => release.upgrade(release.values, backup.values, to));

  async function putBeside({ marked, isThere }: TenantsView): Promise<void> {
    const one = marked();
    if (one === undefined || (await again('backup', backup.take)) === undefined) return;
    const moment = await again('moment archived', backup.moment);
    // It may have been deleted before the moment.
    if (moment === undefined || !isThere(one)) return;
    const restored = await again('Capsule restored', async () => {
      await backup.restore(one.capsule, RESTORED, moment);
      return true;
    });
    if (restored) await again('restored data checked', () => lookAt(kept, one));
    await again('restored Capsule deleted', () => removeRestored(kept));
  }

  return {
    done,
    problems,
    async act(lasts, keeping) {
      const acts = [
        () => upgrade(CHANGED),
        () => putBeside(keeping),
        () => again('rollback', release.rollBack),
        () => putBeside(keeping),
        () => upgrade(CHANGED),
        () => upgrade(USUAL),
      ];
      for (let turn = 0; lasts(); turn += 1) {
        await acts[turn % acts.length]?.();
        await pause(BETWEEN_ACTS_MS);
      }
    },
    async end() {
      await removeRestored(kept).finally(asBefore);
    },
  };
}

/** Counts acts, and those that had to be repeated. */
function patience() {
  const done: Record<string, number> = {};
  const problems: string[] = [];
  const count = (what: string) => {
    done[what] = (done[what] ?? 0) + 1;
  };
  /** Undefined if the act never succeeded, which is reported as a problem. */
  async function again<T>(what: string, act: () => Promise<T>): Promise<T | undefined> {
    for (let tries = 1; ; tries += 1)
      try {
        const result = await act();
        count(what);
        return result;
      } catch (error) {
        if (tries === MOST_TRIES) {
          problems.push(`${what}: ${String(error)}`);
          return undefined;
        }
        count(`${what}, tried again`);
        console.error(`${what}, tried again: ${String(error).slice(0, 500)}`);
        await pause(BETWEEN_TRIES_MS);
      }
  }
  return { done, problems, again };
}

/** Checks that the restored copy runs with the data of this incarnation. */
async function lookAt({ kube, space, tenant }: InstalledSpace, one: DesiredAssistant): Promise<void> {
  const { namespace } = space.names;
  const all = await kube.list('assistants', namespace);
  const copy = all.find(({ spec }) => spec.capsule === RESTORED && spec.manifest.platform.id === one.id);
  if (copy === undefined) throw new Error(`the restored Capsule ${RESTORED} has no Assistant ${one.id}`);
  const { name } = copy.metadata;
  const resume = ['--type=merge', '-p', '{"spec":{"suspend":false}}'];
  const { code, stderr } = await kube.run(['patch', 'assistant', name, '-n', namespace, ...resume]);
  if (code !== 0) throw new Error(stderr);
  await settled(`${name} is Ready`, async () => {
    const { spec, status, metadata } = (await kube.get('assistant', name, namespace)) ?? copy;
    const ready = status?.conditions?.find(({ type }: { type: string }) => type === 'Ready');
    return (
      spec.suspend !== true && status?.observedGeneration === metadata.generation && ready?.status === 'True'
    );
  });
  const found = await tenant.problems({ ...one, name, capsule: RESTORED }, true);
  if (found.length > 0) throw new Error(`${name}, restored from ${one.name}: ${found.join(', ')}`);
}

async function removeRestored({ kube, space }: InstalledSpace): Promise<void> {
  const { namespace } = space.names;
  await kube.remove('capsule', RESTORED, namespace);
  await settled(
    `Capsule ${RESTORED} is gone`,
    async () => (await kube.get('capsule', RESTORED, namespace)) === undefined,
  );
}
