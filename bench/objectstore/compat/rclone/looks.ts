import { join } from 'node:path';
import { equal, like, lines, write } from '../outcome.ts';
import { found, names, type Play, three } from './ground.ts';

/** What rclone tells of what is there. */
export const LOOKS: Readonly<Record<string, Play>> = {
  'lsf of all buckets': async ({ rclone, remote }) =>
    equal(lines(await rclone(['lsf', remote()])), ['data/', 'shared/']),
  'lsd of all buckets': async ({ rclone, remote }) =>
    like(await rclone(['lsd', remote()]), / data\n.* shared\n/),
  'lsf with sizes and hashes': async (ground) => {
    await three(ground);
    const said = await ground.rclone([
      'lsf',
      '-R',
      '--files-only',
      '--format',
      'psh',
      '--hash',
      'MD5',
      ground.data,
    ]);
    like(said, /^a;3;f97c5d29941bfb1b2fdab0874906ab82$/m);
  },
  'lsf of one level': async (ground) => {
    await three(ground);
    equal(lines(await ground.rclone(['lsf', ground.data])).sort(), ['a', 'b/']);
  },
  lsjson: async (ground) => {
    await three(ground);
    const all = await found(ground, '-R', '--files-only', '--hash', ground.data);
    equal(all.map(({ Path, Size }) => [Path, Size]).sort(), [
      ['a', 3],
      ['b/c', 5],
      ['b/d/e', 17],
    ]);
    equal(all.find(({ Path }) => Path === 'a')?.Hashes?.['md5'], 'f97c5d29941bfb1b2fdab0874906ab82');
  },
  'lsjson of one': async (ground) => {
    await three(ground);
    equal(JSON.parse(await ground.rclone(['lsjson', '--stat', `${ground.data}/b/c`])).Size, 5);
  },
  'lsl and size': async (ground) => {
    await three(ground);
    like(await ground.rclone(['lsl', ground.data]), /17 .* b\/d\/e/);
    equal(JSON.parse(await ground.rclone(['size', '--json', ground.data])), {
      count: 3,
      bytes: 25,
      sizeless: 0,
    });
  },
  'listings of the first version, in pages of two': async (ground) => {
    const all = await three(ground);
    const said = await ground.rclone([
      ...['lsf', '-R', '--files-only', ground.data, '--s3-list-version', '1'],
      ...['--s3-list-chunk', '2', '--fast-list'],
    ]);
    equal(lines(said).sort(), all);
  },
  'listings of the second version, in pages of two': async (ground) => {
    const all = await three(ground);
    const said = await ground.rclone([
      ...['lsf', '-R', '--files-only', ground.data, '--s3-list-version', '2'],
      ...['--s3-list-chunk', '2', '--fast-list', '--s3-list-url-encode', 'true'],
    ]);
    equal(lines(said).sort(), all);
  },
  'check that finds a difference': async (ground) => {
    await three(ground);
    write(ground.local, { a: 'eno' });
    like(await ground.fails(['check', ground.local, ground.data]), /1 differences found/);
  },
  'check of one way': async (ground) => {
    await three(ground);
    await ground.rclone(['rcat', `${ground.data}/more`], 'x');
    await ground.rclone(['check', '--one-way', ground.local, ground.data]);
    like(await ground.fails(['check', ground.local, ground.data]), /1 differences found/);
  },
  'hashsum and md5sum': async (ground) => {
    await three(ground);
    like(await ground.rclone(['hashsum', 'MD5', ground.data]), /^f97c5d29941bfb1b2fdab0874906ab82 {2}a$/m);
    like(
      await ground.rclone(['md5sum', '--download', ground.data]),
      /^f97c5d29941bfb1b2fdab0874906ab82 {2}a$/m,
    );
  },
  'checksum against a list': async (ground) => {
    await three(ground);
    write(ground.local, { sums: 'f97c5d29941bfb1b2fdab0874906ab82  a\n' });
    await ground.rclone(['checksum', '--one-way', 'MD5', join(ground.local, 'sums'), ground.data]);
  },
  'cat of a range': async (ground) => {
    await ground.rclone(['rcat', `${ground.data}/r`], '0123456789');
    const cat = (...flags: readonly string[]) => ground.rclone(['cat', `${ground.data}/r`, ...flags]);
    equal(await cat('--offset', '2', '--count', '3'), '234');
    equal(await cat('--offset', '-3'), '789');
    equal(await cat('--head', '4'), '0123');
    equal(await cat('--tail', '4'), '6789');
  },
  'cat of several': async (ground) => {
    await three(ground);
    like(await ground.rclone(['cat', ground.data, '--separator', '|']), /one/);
  },
  'uploads that nobody finished: listed and given up': async (ground) => {
    const { rclone, remote } = ground;
    like(await rclone(['backend', 'list-multipart-uploads', `${remote()}data`]), /"data"/);
    await rclone(['cleanup', `${remote()}data`]);
  },
  'dedupe, with nothing to do': async (ground) => {
    await three(ground);
    await ground.rclone(['dedupe', 'skip', ground.data]);
    equal(await names(ground), ['a', 'b/c', 'b/d/e']);
  },
};
