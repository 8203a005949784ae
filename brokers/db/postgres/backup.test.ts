import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';

/** When the container beside the server makes a copy, and what it says of one that fails. */

const SCRIPT = join(import.meta.dirname, 'backup.sh');
const HOUR = 3_600_000;

/** Replaces pgBackRest. A copy that is under way has a directory, and is in no list yet. */
const PROGRAM = `#!/bin/sh
kind=
for one; do case $one in --type=*) kind=\${one#*=} ;; --*) ;; *) command=$one; break ;; esac; done
echo "$command $kind" >>"$BACKUP/asked"
case $command in
  info) cat "$BACKUP/info.json" ;;
  repo-ls) for path; do :; done; cat "$BACKUP/$(basename "$path").json" 2>/dev/null || cat "$BACKUP/directories" ;;
  repo-get) printf '1\\t0/4800000\\tno recovery target\\n' ;;
esac
[ ! -e "$BACKUP/fails-$command" ]
`;

let directory: string;
const file = (name: string) => join(directory, name);
/** The name of a copy, or a part of one, that was begun so many hours ago. */
const begun = (hours: number) =>
  new Date(Date.now() - hours * HOUR)
    .toISOString()
    .replace(/\..*/, '')
    .replace(/[-:]/g, '')
    .replace('T', '-');

const nameOf = (segment: string, timeline = '1') =>
  `${timeline.padStart(8, '0')}${segment.padStart(16, '0')}`;

interface Backup {
  /** Copies that are being made. */
  readonly underWay?: readonly string[];
  readonly log?: readonly string[];
  /** Copies with damaged pages. */
  readonly damaged?: readonly string[];
  /** The file of the log that a copy begins with, where that is not file 3. */
  readonly begins?: Readonly<Record<string, string>>;
}

/** Timeline 2 has left the first one in file 4. */
function setCopies(
  labels: readonly string[],
  { underWay = [], log = [nameOf('3'), nameOf('4')], damaged = [], begins = {} }: Backup = {},
): void {
  writeFileSync(file('directories'), [...labels, ...underWay, ''].join('\n'));
  const backup = labels.map((label) => ({
    ...{ label, error: damaged.includes(label) },
    ...{ archive: { start: begins[label] ?? nameOf('3'), stop: nameOf('3') } },
    lsn: { start: '0/3000028', stop: '0/3000100' },
    ...{ database: { id: 1 }, timestamp: { start: 1, stop: 2 } },
  }));
  const stanza = { archive: [{ id: '17-1', database: { id: 1 } }], backup };
  writeFileSync(file('info.json'), JSON.stringify([stanza]));
  const directories = new Set(log.map((name) => name.slice(0, 16)));
  const histories = [...directories].some((name) => name.startsWith('00000002')) ? ['00000002.history'] : [];
  const top = [...directories, ...histories].map((name) => [name, { time: 3 }]);
  writeFileSync(file('17-1.json'), JSON.stringify(Object.fromEntries(top)));
  for (const directory of directories) {
    const names = log.filter((name) => name.startsWith(directory));
    const files = names.map((name) => [`${name}-${'ab'.repeat(20)}.zst`, { type: 'file', time: 3 }]);
    writeFileSync(file(`${directory}.json`), JSON.stringify({ '.': {}, ...Object.fromEntries(files) }));
  }
}

const environment = () => ({
  PATH: `${file('bin')}:${process.env['PATH']}`,
  ...{ BACKUP: directory, BACKUP_DIRECTORY: '/nowhere', PGDATA: directory, SOCKET_DIRECTORY: directory },
  ...{ BACKUP_HOURS: '24', BACKUP_FULL_DAYS: '7' },
});

/** Runs until it waits for the next minute; returns the copies that it began, and what it said. */
async function aMinute(): Promise<{
  asked: readonly string[];
  said: string;
  complained: string;
  told: string;
}> {
  const child = spawn('sh', [SCRIPT], { env: environment() });
  const ended = once(child, 'exit');
  const output = Promise.all([text(child.stdout), text(child.stderr)]);
  await eventually(async () => existsSync(file('waits')), { what: 'the wait for the next minute' });
  child.kill('SIGTERM');
  await ended;
  // Only now: the shell would say that its child was terminated.
  process.kill(Number(readFileSync(file('waits'), 'utf8')));
  const [said, complained] = await output;
  const asked = readFileSync(file('asked'), 'utf8').split('\n');
  return {
    asked: asked.filter((line) => line.startsWith('backup')),
    said,
    complained,
    told: readFileSync(file('told'), 'utf8'),
  };
}

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'space-copies-'));
  mkdirSync(file('bin'));
  const programs = {
    pgbackrest: PROGRAM,
    pg_isready: '#!/bin/sh\n',
    psql: '#!/bin/sh\necho "$PGOPTIONS" >>"$BACKUP/told"\n[ ! -e "$BACKUP/fails-psql" ]\n',
    sleep: `#!/bin/sh\necho $$ >'${file('waits.part')}'\nmv '${file('waits.part')}' '${file('waits')}'\nexec /bin/sleep 600 >/dev/null 2>&1\n`,
  };
  for (const [name, program] of Object.entries(programs)) {
    writeFileSync(file(`bin/${name}`), program);
    chmodSync(file(`bin/${name}`), 0o755);
  }
  writeFileSync(file('asked'), '');
});
afterEach(() => rmSync(directory, { recursive: true }));

describe('a copy of the server', () => {
  it.each<[string, readonly string[], readonly string[], readonly string[]]>([
    ['is full if there is none', [], [], ['backup full']],
    [
      'is full if the last full one is a week old',
      [`${begun(170)}F`, `${begun(170)}F_${begun(30)}I`],
      [],
      ['backup full'],
    ],
    ['contains the changes since the last full one', [`${begun(30)}F`], [], ['backup incr']],
    ['is not made before its time', [`${begun(30)}F`, `${begun(30)}F_${begun(3)}I`], [], []],
    [
      'is made again if it was interrupted',
      [`${begun(30)}F`],
      [`${begun(30)}F_${begun(1)}I`],
      ['backup incr'],
    ],
    ['is full again if a full one was interrupted', [`${begun(170)}F`], [`${begun(1)}F`], ['backup full']],
  ])('%s', async (_, complete, underWay, wanted) => {
    setCopies(complete, { underWay });
    expect((await aMinute()).asked).toEqual(wanted);
  });

  it('is made at once after a restore, and then at its time', async () => {
    setCopies([`${begun(5)}F`]);
    writeFileSync(file('restored-to'), 'the end');
    expect((await aMinute()).asked).toEqual(['backup incr']);
    const before = new Date(Date.now() - 6 * HOUR);
    utimesSync(file('restored-to'), before, before);
    rmSync(file('asked'));
    rmSync(file('waits'));
    expect((await aMinute()).asked).toEqual([]);
  });

  it('is made if the log lacks a file since the newest one, for nothing later can be restored until then', async () => {
    setCopies([`${begun(5)}F`], { log: [nameOf('3'), nameOf('5')] });
    expect((await aMinute()).asked).toEqual(['backup incr']);
  });

  it('is not made for a gap within an hour of the newest one, so that a tenant that makes gaps does not occupy the server', async () => {
    setCopies([`${begun(0.5)}F`], { log: [nameOf('3'), nameOf('5')] });
    expect((await aMinute()).asked).toEqual([]);
  });

  it('is not made because the log could not be looked at', async () => {
    setCopies([`${begun(5)}F`]);
    writeFileSync(file('fails-repo-ls'), '');
    expect((await aMinute()).asked).toEqual([]);
  });

  it.each(['stanza-create', 'backup'])(
    'is said to have failed if %s fails, and not to be done',
    async (command) => {
      setCopies([]);
      writeFileSync(file(`fails-${command}`), '');
      const { asked, said, complained } = await aMinute();
      expect([asked.length, said, complained]).toEqual([
        command === 'backup' ? 1 : 0,
        '',
        'backup: failed\n',
      ]);
    },
  );
});

describe('the database broker is told', () => {
  const label = '20261124-143215F';
  const later = `${label}_20261125-143223I`;

  it.each<[string, readonly string[], readonly string[], string]>([
    ['of no copy', [], [], 'space.copied= -c space.damaged=unknown -c space.missing=unknown'],
    [
      'of the newest copy and a whole log',
      [label, later],
      [nameOf('2'), nameOf('3'), nameOf('4')],
      'space.copied=20261125T143223Z -c space.damaged= -c space.missing=',
    ],
    [
      'of the first file that the log lacks',
      [label],
      [nameOf('3'), nameOf('5'), nameOf('8')],
      `space.copied=20261124T143215Z -c space.damaged= -c space.missing=${nameOf('4')}`,
    ],
    [
      'of one at the end of a directory',
      [label],
      [
        ...Array.from({ length: 252 }, (_, i) => nameOf((i + 3).toString(16).toUpperCase())),
        nameOf('100000000'),
      ],
      `space.copied=20261124T143215Z -c space.damaged= -c space.missing=${nameOf('FF')}`,
    ],
    [
      'of one that only a timeline has which a restore has left',
      [label],
      [nameOf('3'), nameOf('4'), nameOf('4', '2'), nameOf('5'), nameOf('6', '2')],
      `space.copied=20261124T143215Z -c space.damaged= -c space.missing=${nameOf('5', '2')}`,
    ],
    [
      'of a log that is gone',
      [label],
      [nameOf('2')],
      `space.copied=20261124T143215Z -c space.damaged= -c space.missing=${nameOf('3')}`,
    ],
  ])('%s', async (_, complete, log, wanted) => {
    setCopies(complete, { log });
    const { told } = await aMinute();
    expect(told.trimEnd().endsWith(wanted)).toBe(true);
  });

  it.each<[string, readonly string[], string]>([
    ['of damaged pages in the newest copy', [later], later],
    ['of none if only an earlier copy has them', [label], ''],
  ])('%s', async (_, damaged, wanted) => {
    setCopies([label, later], { damaged });
    expect((await aMinute()).told).toContain(`-c space.damaged=${wanted} -c `);
  });

  it('of no damage that it does not know of', async () => {
    setCopies([label]);
    writeFileSync(file('info.json'), '');
    expect((await aMinute()).told).toContain('-c space.damaged=unknown -c ');
  });

  it('of the copies, though the log could not be looked at', async () => {
    setCopies([label]);
    writeFileSync(file('fails-repo-ls'), '');
    expect((await aMinute()).told).toMatch(
      /space\.copied=20261124T143215Z -c space\.damaged= -c space\.missing=unknown$/m,
    );
  });

  it('again in a minute if its database does not answer, and copies are made all the same', async () => {
    setCopies([]);
    writeFileSync(file('fails-psql'), '');
    const { asked, complained } = await aMinute();
    expect([asked, complained]).toEqual([
      ['backup full'],
      'backup: the database broker could not be told of the copies\n',
    ]);
  });
});

describe('a restore to the end begins with', () => {
  const [first, second, third] = [
    '20261124-143215F',
    '20261125-143223F',
    '20261125-143223F_20261126-143220I',
  ];
  const begins = { [second]: nameOf('5'), [third]: nameOf('7') };
  const log = ['3', '4', '5', '6', '7', '8'].map((segment) => nameOf(segment));

  it.each<[string, string, Backup, string]>([
    ['the newest copy', third, { log }, ''],
    [
      'the newest one whose pages are whole',
      first,
      { log, damaged: [second, third] },
      `a restore begins with ${first}`,
    ],
    [
      'a damaged one where the log does not lead past it',
      third,
      { log: log.filter((name) => name !== nameOf('6')), damaged: [second, third] },
      'a restore brings them back, since no earlier copy leads past it',
    ],
    [
      'the newest of damaged ones',
      third,
      { log, damaged: [first, second, third] },
      'a restore brings them back, since no earlier copy leads past it',
    ],
  ])('%s', (_, wanted, backup, complaint) => {
    setCopies([first, second, third], { ...backup, begins });
    const { stdout, stderr } = spawnSync('sh', [join(import.meta.dirname, 'repository.sh'), 'way'], {
      env: environment(),
    });
    expect([stdout.toString(), stderr.toString()]).toEqual([
      `${wanted} current 1:0\n`,
      complaint === '' ? '' : `way: ${third} has damaged pages; ${complaint}\n`,
    ]);
  });
});
