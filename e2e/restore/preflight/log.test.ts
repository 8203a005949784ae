import { describe, expect, it } from 'vitest';
import type { Place } from '../place.ts';
import { following, onWay, requireDatabase, requireWhole, segmentsIn } from './log.ts';

/** What pgBackRest 2.55 reports about a full copy, an incremental one, and the log of both. */
const FULL = '20261124-143215F';
const LATER = `${FULL}_20261124-143223I`;
const COPY = {
  database: { id: 1, 'repo-key': 1 },
  error: false,
  info: { delta: 31_065_304, repository: { delta: 3_932_544 }, size: 31_065_304 },
  label: FULL,
  reference: null,
  archive: { start: '000000010000000000000003', stop: '000000010000000000000003' },
  timestamp: { start: 1_795_530_735, stop: 1_795_530_740 },
};
const SECOND = {
  ...COPY,
  label: LATER,
  info: { delta: 58_380_139, repository: { delta: 7_279_776 }, size: 87_937_858 },
  reference: [FULL],
  archive: { start: '000000010000000000000007', stop: '000000010000000000000008' },
  timestamp: { start: 1_795_530_743, stop: 1_795_530_752 },
};
const at = (seconds: number) => new Date(seconds * 1_000).toISOString();
const said = (seconds: number) => at(seconds).replace('T', ' ').replace('Z', '');

interface Backup {
  readonly status?: { readonly code: number; readonly message: string };
  readonly copies?: readonly object[];
  readonly sizes?: Readonly<Record<string, number>>;
  /** The last bytes of the files' names, and when they were archived. */
  readonly log?: Readonly<Record<string, number>>;
  /** The last transactions by the same names; a file that is not listed has none. */
  readonly committed?: Readonly<Record<string, number>>;
  readonly broken?: readonly string[];
  /** Printed instead of JSON. */
  readonly text?: string;
  /** The timelines and their first files, if a restore left the first one. */
  readonly timelines?: string;
}

const LOG = { '3': 740, '4': 743, '5': 744, '6': 745, '7': 749, '8': 752, '9': 753, A: 765 };
const pathOf = (file: string) =>
  `0000000100000000/0000000100000000000000${file.padStart(2, '0')}-${'ab'.repeat(20)}.zst`;

/** A backup that `repository.sh` can be asked about. */
function placeOf({ status, copies = [COPY, SECOND], text, ...backup }: Backup): Place {
  const {
    timelines = '1:0',
    sizes = {},
    log = LOG,
    committed = { '8': 749, '9': 753, A: 765 },
    broken = [],
  } = backup;
  const answer = (command: string, of = ''): string | undefined => {
    if (command === 'copies')
      return (
        text ??
        JSON.stringify([
          {
            archive: [{ database: { id: 1 }, id: '17-1', min: '', max: '' }],
            backup: copies,
            repo: [{ status: status ?? { code: 0, message: 'ok' } }],
            status: status ?? { code: 0, message: 'ok' },
          },
        ])
      );
    if (command === 'way') {
      if (timelines === '') return undefined;
      const moment = of === '' ? Number.POSITIVE_INFINITY : Date.parse(of) / 1_000;
      const made = copies as readonly (typeof COPY)[];
      return `${made.findLast(({ timestamp }) => timestamp.stop <= moment)?.label} current ${timelines}\n`;
    }
    if (command === 'committed') {
      const file = Object.keys(log).find((one) => of.endsWith(pathOf(one))) ?? '';
      if (broken.includes(file)) return undefined;
      return committed[file] === undefined ? '' : said(1_795_530_000 + committed[file]);
    }
    if (of === 'archive/space/17-1')
      return JSON.stringify({
        '.': { type: 'path' },
        ...Object.fromEntries(
          Object.entries(log).map(([file, time]) => [
            pathOf(file),
            { type: 'file', size: 700, time: 1_795_530_000 + time },
          ]),
        ),
        '0000000100000000/000000010000000000000003.00000028.backup': { type: 'file', size: 400, time: 1 },
      });
    const label = of.replace('backup/space/', '');
    const size = sizes[label] ?? (label === FULL ? 3_932_544 : 7_279_776);
    return JSON.stringify({
      '.': { type: 'path' },
      'backup.manifest': { type: 'file', size: 649_920, time: 1 },
      'backup.manifest.copy': { type: 'file', size: 649_920, time: 1 },
      'bundle/1': { type: 'file', size: size - 208, time: 1 },
      'pg_data/backup_label.zst': { type: 'file', size: 208, time: 1 },
    });
  };
  const isBroken = (path: string) => broken.some((file) => path.endsWith(pathOf(file)));
  const run = async (args: readonly string[], input = '') => {
    const [command = '', of] = args.slice(args.indexOf('/usr/share/space/repository.sh') + 1);
    const stdout =
      command === 'broken'
        ? input
            .split('\n')
            .filter(isBroken)
            .map((path) => `${path}\n`)
            .join('')
        : answer(command, of);
    return { code: stdout === undefined ? 1 : 0, stdout: stdout ?? '', stderr: 'it does not open' };
  };
  return { kube: { run }, namespace: 'home-restore', pod: 'look', container: 'postgres' };
}

describe('the database of a backup', () => {
  it.each<[string, string | undefined, Backup]>([
    ['the end', undefined, {}],
    ['a moment before a transaction', at(1_795_530_760), {}],
    ['a moment that the first copy alone is from before', at(1_795_530_741), { sizes: { [LATER]: 1_000 } }],
    [
      'the end on the timeline that follows, though the one before has later files',
      undefined,
      { timelines: '1:0 2:9' },
    ],
    [
      'a moment before a gap in the log',
      at(1_795_530_741),
      { log: { '3': 740, '4': 743, '9': 753 }, committed: { '4': 743 } },
    ],
    [
      'a moment, though the last file of the log has no transaction',
      at(1_795_530_752),
      { committed: { '9': 753 } },
    ],
  ])('reaches %s', async (_, moment, backup) => {
    await requireDatabase(placeOf(backup), moment);
  });

  it.each<[string, string | undefined, Backup, RegExp]>([
    ['has none yet', undefined, { copies: [] }, /has no copy of the database: check backup\.s3\.bucket/],
    [
      'is under another prefix',
      undefined,
      { status: { code: 1, message: 'missing stanza path' } },
      /has no copy of the database: check backup\.s3\.bucket and backup\.s3\.prefix/,
    ],
    [
      'is another Space’s',
      undefined,
      { status: { code: 99, message: '[CryptoError] unable to load:\nHINT' } },
      /cannot be read with the keys of this Space.*\(\[CryptoError\] unable to load\)\. Nothing was changed$/,
    ],
    [
      'does not open, and quotes its bytes',
      undefined,
      { text: '[{"message":"\u0001' },
      /cannot be read with the keys of this Space/,
    ],
    [
      'is younger than the moment',
      at(1_795_530_739),
      {},
      /oldest copy of the database was made at 2026-11-24T14:32:20.000Z: give that time or a later/,
    ],
    [
      'was cut short in its last copy',
      undefined,
      { sizes: { [LATER]: 7_279_775 } },
      /incomplete: the backup has 7279775 of 7279776 bytes of .*I\. Give a time before 2026-11-24T14:32:23\.000Z/,
    ],
    [
      'was cut short in a copy that the last one is on top of',
      undefined,
      { sizes: { [FULL]: 208 } },
      /incomplete: the backup has 208 of 3932544 bytes of 20261124-143215F/,
    ],
    ['lost a copy that the last one is on top of', undefined, { copies: [SECOND] }, /of no bytes of /],
    [
      'lacks a file of the log that its copy needs',
      undefined,
      { log: { '3': 740, '7': 749, '9': 753 } },
      /the backup lacks a part of the log that the copy .* of the database needs/,
    ],
    [
      'has a file of the log that is not whole',
      undefined,
      { broken: ['8'] },
      /file 0000000100000000\/000000010000000000000008-.* is truncated or damaged in the backup/,
    ],
    [
      'ends before the moment',
      at(1_795_530_766),
      {},
      /contains nothing after 2026-11-24T14:32:45\.000Z, so it does not reach .*omit --at/,
    ],
    [
      'has no transaction after the moment',
      at(1_795_530_755),
      { committed: { '8': 749, '9': 753 } },
      /nothing after 2026-11-24T14:32:33\.000Z/,
    ],
    [
      'has a gap in its log before the moment',
      at(1_795_530_755),
      { log: { '7': 749, '8': 752, A: 765 } },
      /nothing after 2026-11-24T14:32:29\.000Z/,
    ],
    [
      'has no transaction anywhere',
      at(1_795_530_755),
      { committed: {} },
      /nothing after its copy of the database, so it does not reach/,
    ],
    [
      'ended long before the moment, with nobody in it',
      at(1_795_539_999),
      { committed: {} },
      /nothing after 2026-11-24T14:32:45\.000Z/,
    ],
    [
      'has a gap in its log before the end',
      undefined,
      { log: { '7': 749, '8': 752, A: 765 } },
      /lacks the file 000000010000000000000009 of the log, and the server has written later ones, .* Give a time before 2026-11-24T14:32:29\.000Z, with --at, .*Nothing was changed$/,
    ],
    [
      'has a gap in its log after files without a transaction',
      undefined,
      { log: { '7': 749, '8': 752, A: 765 }, committed: {} },
      /lacks the file 000000010000000000000009 of the log, .* Give a time before the copy 20261124-143215F_20261124-143223I of the database, with --at/,
    ],
    [
      'is only on a timeline that restores have left',
      at(1_795_530_760),
      { timelines: '' },
      /^it does not open\. Nothing was changed$/,
    ],
    [
      'has its log only on the timeline that a restore left',
      at(1_795_530_755),
      { timelines: '1:0 2:9' },
      /nothing after 2026-11-24T14:32:29\.000Z/,
    ],
  ])('is refused where it %s', async (_, moment, backup, says) => {
    await expect(requireDatabase(placeOf(backup), moment)).rejects.toThrow(says);
  });
});

describe('the log of a running server', () => {
  const END = '00000001000000000000000A';

  it.each<[string, Backup]>([
    ['follows its newest copy without a gap', {}],
    ['has a gap only before its newest copy', { log: { '3': 740, '7': 749, '8': 752, '9': 753, A: 765 } }],
    ['has files that were archived since', { log: { ...LOG, B: 766 } }],
  ])('is whole where it %s', async (_, backup) => {
    await requireWhole(placeOf(backup), END);
  });

  it.each<[string, Backup, RegExp]>([
    [
      'has a gap',
      { log: { '7': 749, '8': 752, A: 765 } },
      /lacks the file 000000010000000000000009 of the log, and the server has written later ones, .* Give a time before 2026-11-24T14:32:29\.000Z, with --at, .*Nothing was changed$/,
    ],
    [
      'lacks what was archived last, since the server has dropped that',
      { log: { '7': 749, '8': 752, '9': 753 } },
      /lacks the file 00000001000000000000000A of the log, .* Give a time before 2026-11-24T14:32:33\.000Z/,
    ],
    [
      'lacks a file that its newest copy needs',
      { log: { '8': 752, '9': 753, A: 765 } },
      /the backup lacks a part of the log that the copy .* of the database needs/,
    ],
    ['follows no copy', { copies: [] }, /has no copy of the database/],
  ])('is refused where it %s', async (_, backup, says) => {
    await expect(requireWhole(placeOf(backup), END)).rejects.toThrow(says);
  });
});

it('files of the log are ordered over timelines and logs on the way, up to the first missing one', () => {
  const name = (timeline: string, log: string, segment: string) =>
    `x/${timeline}${log}${segment}-${'0'.repeat(40)}.zst`;
  const [one, two] = ['00000001', '00000002'];
  const names = [
    name(one, '00000000', '000000FE'),
    name(one, '00000000', '000000FF'),
    name(two, '00000000', '000000FF'),
    name(two, '00000001', '00000000'),
    name(one, '00000001', '00000000'),
    name(one, '00000001', '00000001'),
    name(two, '00000001', '00000002'),
  ];
  const files = Object.fromEntries(names.map((path) => [path, { type: 'file', size: 1, time: 7 }]));
  const all = segmentsIn({ ...files, 'x/00000002.history': { type: 'file' } });
  const archive = { start: `${one}00000000000000FE`, stop: `${one}00000000000000FF` };
  const pathsOn = (...stretches: { timeline: number; first: number }[]) =>
    following(onWay(all, stretches), { archive }).map(({ path }) => names.indexOf(path));
  expect(pathsOn({ timeline: 1, first: 0 }, { timeline: 2, first: 255 })).toEqual([3, 2, 0]);
  expect(pathsOn({ timeline: 1, first: 0 })).toEqual([5, 4, 1, 0]);
  expect(all[0]).toMatchObject({ timeline: 1, number: 254, put: 7_000 });
});
