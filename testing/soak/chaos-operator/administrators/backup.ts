import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { startProvider } from '../../../../e2e/space/testing/provider.ts';
import { type InstalledSpace, printed, settled } from './model.ts';
import type { Release } from './release.ts';

const RESTORE = resolve(import.meta.dirname, '../../../../e2e/restore/main.ts');
const VAULT = 'chaos-vault';
const SECRET = 'backup-s3';

/** A backup of the Space into a bucket outside of it. */
export interface Backup {
  /** The values of a release with this backup. */
  readonly values: object;
  /** Copies Capsules, Assistants, keys and objects now; returns the name of the Job. */
  take(): Promise<string>;
  /** Returns the present moment once the archived log reaches it. */
  moment(): Promise<string>;
  /** Restores a Capsule as of a moment under another name. */
  restore(capsule: string, as: string, at: string): Promise<void>;
}

/** Configures the backup of a Space and waits for the first copy; `directory` is for the identity. */
export async function openBackup(kept: InstalledSpace, release: Release, directory: string): Promise<Backup> {
  const { kube, space } = kept;
  const { space: name, namespace, servicesNamespace } = space.names;
  const identity = await generateIdentity();
  const identityFile = join(directory, 'identity');
  await writeFile(identityFile, `${identity}\n`, { mode: 0o600 });
  const { external, fields } = await startProvider(kube, VAULT, await imageOfS3(kept));
  const values = {
    existingSecrets: { backupS3: SECRET },
    backup: {
      enabled: true,
      recipient: await identityToRecipient(identity),
      postgres: { archiveSeconds: 5 },
      // With the low default limit there would be few backups during the kills.
      resources: { limits: { cpu: '1', memory: '384Mi' } },
      s3: external,
    },
  };
  await kube.apply({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: SECRET, namespace: servicesNamespace },
    stringData: { 'access-key': fields['access-key-id'], 'secret-key': fields['secret-access-key'] },
  });
  await release.upgrade(release.values, values);

  const kubectl = async (...args: readonly string[]) => {
    const { code, stdout, stderr } = await kube.run(args);
    if (code !== 0) throw new Error(stderr || stdout);
    return stdout.trim();
  };
  const beside = (...command: readonly string[]) =>
    kubectl('exec', '-n', servicesNamespace, 'postgres-0', '-c', 'backup', '--', ...command);
  const sql = (statement: string) =>
    beside('psql', '-XAtqU', 'postgres', '-h', '/run/postgresql', '-c', statement, 'postgres');
  const pgbackrest = ['pgbackrest', '--config=/run/postgresql/pgbackrest.conf', '--stanza=space'];
  await settled('a first copy of the server', async () =>
    /^\S+F$/m.test(await beside(...pgbackrest, 'repo-ls', 'backup/space')),
  );

  let taken = 0;
  return {
    values,
    async take() {
      taken += 1;
      const job = `chaos-backup-${taken}`;
      await kubectl('create', 'job', job, '--from=cronjob/backup', '-n', servicesNamespace);
      const ended = async (): Promise<string | undefined> => {
        const { conditions = [] } = (await kube.get('job', job, servicesNamespace))?.['status'] ?? {};
        const types = conditions.map(({ type }: { type: string }) => type);
        return ['Complete', 'Failed'].find((type) => types.includes(type));
      };
      await settled(`${job} has ended`, async () => (await ended()) !== undefined);
      if ((await ended()) !== 'Complete') throw new Error(`${job} failed`);
      return job;
    },
    async moment() {
      const moment = await sql('SELECT clock_timestamp()');
      await settled('the log is archived', async () => {
        await sql('SELECT pg_switch_wal()');
        return (await sql(`SELECT last_archived_time > '${moment}' FROM pg_stat_archiver`)) === 't';
      });
      return new Date(moment).toISOString();
    },
    async restore(capsule, as, at) {
      const where = ['--space', name, '--namespace', namespace, '--identity', identityFile];
      await printed(process.execPath, [RESTORE, ...where, '--capsule', capsule, '--as', as, '--at', at]);
    },
  };
}

/** Removes everything of the backup that is not part of the release, also after a failed start. */
export async function removeBackup({ kube, space }: InstalledSpace): Promise<void> {
  await kube.remove('namespace', VAULT);
  await kube.remove('secret', SECRET, space.names.servicesNamespace);
}

/** Returns the image of the S3 server, which the cluster has already. */
async function imageOfS3({ kube, space }: InstalledSpace): Promise<string> {
  const server = await kube.get('statefulset', 's3', space.names.servicesNamespace);
  return server?.['spec'].template.spec.containers[0].image;
}
