import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { freePort } from '../../../testing/ports.ts';
import { postgresPrograms } from '../../../testing/postgres/binaries.ts';
import { connect, query } from '../testing/postgres.ts';

/** The embedded server is lost and restored several times; its backup is a directory. */

const NOBODY = 65_534;
const asServer = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
const LABEL = '20261121-100000F';

/** Replaces pgBackRest. Like that, it refuses a file of the log whose name it has with another content. */
const PROGRAM = `#!/bin/sh
set -eu
archive=$BACKUP/archive
for one; do
  shift
  case $one in
    --pg1-path=*) data=\${one#*=} ;;
    --target=*) time=\${one#*=} ;;
    --target-timeline=*) timeline=\${one#*=} ;;
    --recovery-option=restore_command=*) get=\${one#*restore_command=} ;;
    --*) ;;
    *) set -- "$@" "$one" ;;
  esac
done
case $1 in
  info) cat "$BACKUP/info.json" ;;
  repo-ls)
    printf '{".":{"type":"path"}'
    for file in "$archive"/*; do printf ',"%s":{"type":"file","time":%s}' "\${file##*/}" "$(stat -c %Y "$file")"; done
    printf '}'
    ;;
  repo-get) cat "$archive/\${2##*/}" ;;
  archive-get) [ -e "$archive/$2" ] || exit 1; cp "$archive/$2" "$3" ;;
  archive-push)
    name=$(basename "$2")
    if [ -e "$archive/$name" ]; then cmp -s "$2" "$archive/$name" || exit 45; exit; fi
    cp "$2" "$archive/$name.part"
    mv "$archive/$name.part" "$archive/$name"
    ;;
  restore)
    cp -a "$BACKUP/copy/." "$data"
    printf "restore_command = '%s'\\nrecovery_target_timeline = '%s'\\n" "$get" "\${timeline:-latest}" >"$data/postgresql.auto.conf"
    [ -z "\${time:-}" ] || printf "recovery_target_time = '%s'\\nrecovery_target_action = promote\\n" "$time" >>"$data/postgresql.auto.conf"
    : >"$data/recovery.signal"
    ;;
  *) exit 2 ;;
esac
`;

let directory: string;
let port: number;
let running: ChildProcess | undefined;
const data = () => join(directory, 'volume/data/17');
const backup = (...path: string[]) => join(directory, 'backup', ...path);
const url = () => `postgresql://postgres@127.0.0.1:${port}/postgres`;
const environment = () => ({
  PATH: `${join(directory, 'bin')}:${process.env['PATH']}`,
  PG_PROGRAMS: postgresPrograms('17'),
  BACKUP: backup(),
  BACKUP_DIRECTORY: '/nowhere',
  PGDATA: data(),
  PASSWORD_FILE: join(directory, 'password'),
  OBJECTSTORE_PASSWORD_FILE: '/nowhere',
  TLS_DIRECTORY: '/nowhere',
  SOCKET_DIRECTORY: directory,
  LISTEN_ADDRESSES: '127.0.0.1',
  PORT: String(port),
  MAX_CONNECTIONS: '50',
  TMPDIR: directory,
  CGROUP_DIRECTORY: '/nowhere',
  DISK_RESERVE_MIB: '0',
});

async function start(): Promise<void> {
  const child = spawn('/bin/sh', [join(directory, 'image/entrypoint.sh'), '-c', 'fsync=off'], {
    ...{ ...asServer, cwd: directory, env: environment(), stdio: 'ignore' },
  });
  running = child;
  const answers = async () => {
    if (child.exitCode !== null) throw new Error('the server ended');
    return query(url(), 'SELECT').then(
      () => true,
      () => false,
    );
  };
  await eventually(answers, { what: 'the server' });
}

async function lose(): Promise<void> {
  const child = running;
  running = undefined;
  if (child === undefined) return;
  const gone = once(child, 'exit');
  child.kill('SIGINT');
  await gone;
  rmSync(data(), { recursive: true });
}

const restore = (time = '') =>
  new Promise<void>((done, fail) => {
    const args = [join(directory, 'image/restore.sh'), time];
    execFile('/bin/sh', args, { ...asServer, cwd: directory, env: environment() }, (error, _, said) =>
      error === null ? done() : fail(new Error(said)),
    );
  });

/** Makes a copy of the running server, and a list of copies with it. */
async function copy(): Promise<void> {
  const client = await connect(url());
  try {
    await client.query("SELECT pg_backup_start('copy', true)");
    const now = Math.floor(Date.now() / 1_000);
    execFileSync('cp', ['-a', data(), backup('copy')]);
    rmSync(backup('copy/postmaster.pid'));
    for (const name of readdirSync(backup('copy/pg_wal')).filter((one) => one !== 'archive_status'))
      rmSync(backup('copy/pg_wal', name), { recursive: true });
    for (const name of readdirSync(backup('copy/pg_wal/archive_status')))
      rmSync(backup('copy/pg_wal/archive_status', name));
    const { rows } = await client.query('SELECT lsn, labelfile FROM pg_backup_stop(false)');
    writeFileSync(backup('copy/backup_label'), rows[0].labelfile);
    const [, first] = /file ([0-9A-F]{24})/.exec(rows[0].labelfile) ?? [];
    const one = {
      label: LABEL,
      archive: { start: first, stop: first },
      lsn: { start: rows[0].lsn, stop: rows[0].lsn },
      timestamp: { start: now, stop: now },
      database: { id: 1 },
    };
    const stanza = { archive: [{ id: '17-1', database: { id: 1 } }], backup: [one] };
    writeFileSync(backup('info.json'), JSON.stringify([stanza]));
  } finally {
    await client.end();
  }
}

const write = (row: string) => query(url(), 'INSERT INTO entry (row) VALUES ($1)', [row]);
const rows = async () =>
  (await query<{ row: string }>(url(), 'SELECT row FROM entry ORDER BY number')).map(({ row }) => row);
/** A moment between two transactions, more than a second from each, since pgBackRest counts seconds. */
async function moment(): Promise<string> {
  await query(url(), 'SELECT pg_sleep(1.1)');
  const [row] = await query<{ now: string }>(url(), 'SELECT clock_timestamp()::text AS now');
  await query(url(), 'SELECT pg_sleep(1.1)');
  return row?.now ?? '';
}
async function archived(): Promise<void> {
  await query(url(), 'SELECT pg_current_xact_id()');
  const [row] = await query<{ file: string }>(url(), 'SELECT pg_walfile_name(pg_switch_wal()) AS file');
  const isThere = async () => readdirSync(backup('archive')).includes(row?.file ?? '');
  await eventually(isThere, { what: `${row?.file} in the archive` });
}

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'space-restore-'));
  for (const path of ['volume', 'backup/archive', 'bin'])
    mkdirSync(join(directory, path), { recursive: true });
  for (const file of readdirSync(import.meta.dirname).filter((name) => /\.(sh|pl|sql|conf)$/.test(name)))
    cpSync(join(import.meta.dirname, file), join(directory, 'image', file));
  const hba = join(directory, 'image/pg_hba.conf');
  writeFileSync(hba, `host all postgres 127.0.0.1/32 trust\n${readFileSync(hba, 'utf8')}`);
  writeFileSync(join(directory, 'bin/pgbackrest'), PROGRAM);
  writeFileSync(join(directory, 'password'), 'abcdef123456');
  // With this file, the server archives.
  writeFileSync(join(directory, 'pgbackrest.conf'), '');
  chmodSync(join(directory, 'bin/pgbackrest'), 0o755);
  chmodSync(directory, 0o755);
  if (process.getuid?.() === 0)
    for (const path of ['.', 'volume', 'backup', 'backup/archive'])
      chownSync(join(directory, path), NOBODY, NOBODY);
  port = await freePort();
});
afterAll(async () => {
  await lose();
  rmSync(directory, { recursive: true, force: true });
});

it('a restore reaches what a server restored before it has archived, and each moment on the timeline of that time', async () => {
  await start();
  await query(url(), 'CREATE TABLE entry (number int GENERATED ALWAYS AS IDENTITY, row text)');
  await copy();
  await write('kept');
  const first = await moment();
  await write('a mistake');
  const second = await moment();
  await write('another mistake');
  await archived();
  await lose();

  await restore(first);
  await start();
  expect(await rows()).toEqual(['kept']);
  await write('after the first restore');
  const third = await moment();
  await write('the last');
  await archived();
  await lose();

  for (const [time, wanted] of [
    ['', ['kept', 'after the first restore', 'the last']],
    [first, ['kept']],
    [second, ['kept', 'a mistake']],
    [third, ['kept', 'after the first restore']],
  ] as const) {
    await restore(time);
    await start();
    expect([time, await rows()]).toEqual([time, wanted]);
    await lose();
  }
  expect(readdirSync(backup('archive')).filter((name) => name.endsWith('.history')).length).toBeGreaterThan(
    1,
  );
});

it('a restore to a moment before the first copy is refused', async () => {
  const none = restore('2026-11-21 10:00:00+00').catch((error: Error) => error.message);
  expect(await none).toMatch(/the backup has no copy of the database that is as old as that/);
});
