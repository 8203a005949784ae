/** The embedded PostgreSQL of a Space in its own image, with its backup, on a loopback port. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { openSync, readFileSync } from 'node:fs';
import { chown, cp, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { run } from '../../../e2e/cluster/run.ts';
import { IMAGES } from '../../../e2e/space/images.ts';
import { eventually } from '../../eventually.ts';
import { freePort } from '../../ports.ts';
import type { S3Server } from '../../s3.ts';
import type { AsShipped } from './as-shipped.ts';
import type { Limit } from './limit.ts';
import { unpackImage } from './rootfs.ts';
import { type StandIn, standIn } from './stand-in.ts';

export const VAULT_BUCKET = 'vault';
export const VAULT_PREFIX = 'home';
/** The user of the server in the image. */
const POSTGRES = 999;
const VOLUME = 'var/lib/postgresql/data';

/** The S3 server for backups, which serves TLS with a certificate of the CA in the file `ca`. */
export interface Vault {
  readonly vault: S3Server;
  readonly ca: string;
}

export interface BackedUpServer extends StandIn {
  readonly port: number;
  /** The database broker's URL. */
  readonly brokerUrl: string;
  start(): Promise<void>;
  /** Stops it and removes its volume. */
  lose(): Promise<void>;
  /** Makes a backup as the container `backup` does. */
  backUp(): Promise<void>;
  /** Runs a program in its container; returns the output. */
  inside(...program: readonly [string, ...string[]]): Promise<string>;
  remove(): Promise<void>;
}

/** Starts the server; needs root for mounts. */
export async function openServer(
  directory: string,
  { vault, ca }: Vault,
  { archiveSeconds }: Pick<AsShipped, 'archiveSeconds'>,
  limit: Limit,
): Promise<BackedUpServer> {
  const root = join(directory, 'root');
  await mkdir(directory, { recursive: true });
  await unpackImage(IMAGES['postgres.image'], root);
  const port = await freePort();
  const password = randomBytes(24).toString('base64url');
  await writeMounts(root, vault, ca, password);
  const env = environmentOf(port, vault, archiveSeconds);
  const log = join(directory, 'postgres.log');
  const out = openSync(log, 'a');
  let running: ChildProcess | undefined;
  let volumes = 0;

  const begin = (program: readonly string[]): [string, readonly string[]] => {
    const mounts = `mount --bind /dev "$0/dev" && mount -t proc proc "$0/proc"`;
    const script = `${mounts} && exec chroot --userspec=${POSTGRES}:${POSTGRES} "$0" "$@"`;
    return ['unshare', ['--mount', '--', '/bin/sh', '-c', script, root, ...program]];
  };
  const inside: BackedUpServer['inside'] = (...program) => {
    const [command, args] = begin(program);
    return run([command, ...args], { env });
  };
  const end = async () => {
    const child = running;
    running = undefined;
    if (child === undefined || child.exitCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGINT');
    await ended;
  };
  return {
    ...(await standIn(directory, root, POSTGRES, env)),
    port,
    brokerUrl: `postgresql://space_broker:${password}@127.0.0.1:${port}/space_registry`,
    start: async () => {
      const [command, args] = begin(['/bin/sh', '/usr/share/space/entrypoint.sh']);
      const child = spawn(command, args, { env, stdio: ['ignore', out, out] });
      running = child;
      await eventually(
        async () => {
          if (child.exitCode !== null) return 'ended';
          const asked = inside('pg_isready', '-q', '-h', '/run/postgresql');
          return asked.then(
            () => 'ready',
            () => false,
          );
        },
        { what: 'the server is ready' },
      ).then((how) => {
        if (how !== 'ready') throw new Error(`the server ended: ${readFileSync(log, 'utf8').slice(-2_000)}`);
      });
    },
    lose: async () => {
      await end();
      // A new pod has a new volume, without locks of programs that have not ended yet. The files of the old volume stay until
      // the end, since the file system creates files slowly for minutes after many were removed.
      volumes += 1;
      await rename(join(root, VOLUME), join(directory, `lost-${volumes}`));
      await rm(join(root, 'tmp'), { recursive: true });
      for (const place of [VOLUME, 'tmp']) await makeDirectory(join(root, place));
    },
    inside,
    backUp: async () => {
      const [command, args] = begin(['/bin/sh', '/usr/share/space/backup.sh', 'now']);
      await run(limit.around([command, ...args]), { env });
    },
    remove: async () => {
      await end();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function makeDirectory(path: string): Promise<void> {
  await mkdir(path, { recursive: true });
  await chown(path, POSTGRES, POSTGRES);
}

/** Writes the files that the chart would mount. */
async function writeMounts(root: string, vault: S3Server, ca: string, password: string): Promise<void> {
  const files = {
    'etc/space/admin/password': password,
    'etc/space/backup/access-key': vault.accessKeyId,
    'etc/space/backup/secret-key': vault.secretAccessKey,
    'etc/space/backup-keys/postgres': randomBytes(32).toString('base64url'),
    'etc/space/backup-ca/ca.pem': await readFile(ca, 'utf8'),
  };
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, name)), { recursive: true });
    await writeFile(join(root, name), text);
  }
  for (const place of [VOLUME, 'run/postgresql', 'tmp']) await makeDirectory(join(root, place));
  await cp('/etc/hosts', join(root, 'etc/hosts'));
}

const environmentOf = (port: number, vault: S3Server, archiveSeconds: number) => ({
  PATH: '/usr/lib/postgresql/17/bin:/usr/bin:/bin:/usr/sbin:/sbin',
  LISTEN_ADDRESSES: '127.0.0.1',
  PORT: String(port),
  MAX_CONNECTIONS: '600',
  DISK_RESERVE_MIB: '0',
  // All clients here have the same address.
  LOGINS_PER_ADDRESS: '600',
  // There is no memory limit here.
  CGROUP_DIRECTORY: '/nowhere',
  PGPORT: String(port),
  BACKUP_S3_HOST: 'localhost',
  BACKUP_S3_PORT: new URL(vault.endpoint).port,
  BACKUP_S3_REGION: vault.region,
  BACKUP_S3_BUCKET: VAULT_BUCKET,
  BACKUP_S3_PREFIX: VAULT_PREFIX,
  BACKUP_S3_URI_STYLE: 'path',
  BACKUP_S3_CA_FILE: '/etc/space/backup-ca/ca.pem',
  BACKUP_KEEP_DAYS: '14',
  BACKUP_FULL_DAYS: '7',
  BACKUP_HOURS: '24',
  BACKUP_QUEUE_BYTES: String(4 * 1024 ** 3),
  BACKUP_ARCHIVE_SECONDS: String(archiveSeconds),
});
