import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';

/** Files of the log as a server that recovers asks for them, of a backup that is a directory. */

const SCRIPT = join(import.meta.dirname, 'log.sh');
const TIMELINE = '00000001';
/** Over the end of one log of 256 files. */
const FIRST = 0x2f0;
const FILES = 40;

let directory: string;
const nameOf = (number: number) =>
  [TIMELINE, ...[Math.floor(number / 256), number % 256].map((part) => part.toString(16).padStart(8, '0'))]
    .join('')
    .toUpperCase();
const ahead = () => join(directory, 'ahead');
const asked = () =>
  readFileSync(join(directory, 'asked'), 'utf8')
    .split('\n')
    .filter((line) => line !== '');

/** Replaces pgBackRest, which ends with 1 for a missing file. */
const PROGRAM = `#!/bin/sh
while [ "$1" != archive-get ]; do shift; done
echo "$2" >>"$BACKUP/../asked"
[ ! -e "$BACKUP/$2.broken" ] || exit 55
[ -e "$BACKUP/$2" ] || exit 1
sleep "\${SLOWLY:-0}"
cp "$BACKUP/$2" "$3"
`;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'space-log-'));
  for (const name of ['backup', 'bin', 'ahead']) mkdirSync(join(directory, name));
  writeFileSync(join(directory, 'bin/pgbackrest'), PROGRAM);
  chmodSync(join(directory, 'bin/pgbackrest'), 0o755);
  writeFileSync(join(directory, 'asked'), '');
  for (let number = FIRST; number < FIRST + FILES; number += 1)
    writeFileSync(join(directory, 'backup', nameOf(number)), `file ${number}`);
});
afterEach(() => rmSync(directory, { recursive: true }));

const environment = () => ({
  PATH: `${join(directory, 'bin')}:${process.env['PATH']}`,
  BACKUP: join(directory, 'backup'),
  LOG_DIRECTORY: ahead(),
  PGDATA: directory,
});

const get = (file: string) =>
  new Promise<{ code: number; text: string }>((resolve) => {
    const to = join(directory, 'RECOVERYXLOG');
    rmSync(to, { force: true });
    execFile('sh', [SCRIPT, 'get', file, to], { env: environment() }, (error) => {
      const code = error === null ? 0 : Number(error.code);
      resolve({ code, text: code === 0 ? readFileSync(to, 'utf8') : '' });
    });
  });

describe('the log of a server that recovers', () => {
  it.each([
    ['is not there', () => nameOf(FIRST + FILES), 1],
    ['cannot be read', () => nameOf(FIRST), 255],
    ['is a history that is not there', () => '00000002.history', 1],
  ])('has a file that %s', async (_, file, code) => {
    writeFileSync(join(directory, 'backup', `${nameOf(FIRST)}.broken`), '');
    expect((await get(file())).code).toBe(code);
  });

  it('is fetched in advance up to a limit, complete and in order', async () => {
    const fetching = spawn('sh', [SCRIPT, 'ahead', nameOf(FIRST)], { env: environment() });
    const ended = once(fetching, 'exit');
    await eventually(() => Promise.resolve(asked().length === 16), { what: 'sixteen files' });
    for (let number = FIRST; number < FIRST + FILES; number += 1)
      expect(await get(nameOf(number))).toEqual({ code: 0, text: `file ${number}` });
    expect((await get(nameOf(FIRST + FILES))).code).toBe(1);
    await ended;
    const last = nameOf(FIRST + FILES - 1);
    expect(await get(last)).toEqual({ code: 0, text: `file ${FIRST + FILES - 1}` });
  });

  it('leaves no files if the server was faster and fetched them itself', async () => {
    const slowly = { ...environment(), SLOWLY: '0.2' };
    const fetching = spawn('sh', [SCRIPT, 'ahead', nameOf(FIRST)], { env: slowly });
    const ended = once(fetching, 'exit');
    await eventually(() => Promise.resolve(asked().length >= 4), { what: 'four files under way' });
    for (let number = FIRST; number < FIRST + FILES; number += 1)
      expect((await get(nameOf(number))).code).toBe(0);
    await ended;
    expect(readdirSync(ahead())).toEqual(['asked']);
  });

  it('is no longer fetched once the server has recovered, and leaves nothing', async () => {
    for (let round = 0; round < 20; round += 1) {
      mkdirSync(ahead(), { recursive: true });
      const fetching = spawn('sh', [SCRIPT, 'ahead', nameOf(FIRST)], { env: environment() });
      const ended = once(fetching, 'exit');
      await eventually(() => Promise.resolve(readdirSync(ahead()).length >= 1 + (round % 16)), {
        what: 'files',
      });
      execFileSync('sh', [SCRIPT, 'end'], { env: environment() });
      await ended;
      expect(readdirSync(directory).sort()).toEqual(['asked', 'backup', 'bin']);
    }
  });

  it('is fetched in advance also while the requested file is being recorded', async () => {
    writeFileSync(join(ahead(), 'asked'), '');
    const fetching = spawn('sh', [SCRIPT, 'ahead', nameOf(FIRST)], { env: environment() });
    const ended = once(fetching, 'exit');
    await eventually(() => Promise.resolve(asked().length === 16), { what: 'sixteen files' });
    execFileSync('sh', [SCRIPT, 'end'], { env: environment() });
    await ended;
  });

  it('leaves nothing if a file arrives while others are removed', () => {
    const late = `#!/bin/sh
/bin/rm -rf "$2"/*
echo late 2>/dev/null >"$LOG_DIRECTORY/late"
exec rmdir "$2"
`;
    writeFileSync(join(directory, 'bin/rm'), late);
    chmodSync(join(directory, 'bin/rm'), 0o755);
    writeFileSync(join(ahead(), nameOf(FIRST)), '');
    execFileSync('sh', [SCRIPT, 'end'], { env: environment() });
    expect(readdirSync(directory).sort()).toEqual(['asked', 'backup', 'bin']);
  });
});
