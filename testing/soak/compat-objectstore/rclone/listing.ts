import { join } from 'node:path';
import { equal, like, lines, write } from '../../outcome.ts';
import { found, names, type Play, three } from './fixture.ts';

/** Cases that list objects. */
export const LISTING: Readonly<Record<string, Play>> = {
  'lsf of all buckets': async ({ rclone, remote }) =>
    equal(lines(await rclone(['lsf', remote()])), ['data/', 'shared/']),
  'lsd of all buckets': async ({ rclone, remote }) =>
    like(await rclone(['lsd', remote()]), / data\n.* shared\n/),
  'lsf with sizes and hashes': async (fixture) => {
    await three(fixture);
    const said = await fixture.rclone([
      'lsf',
      '-R',
      '--files-only',
      '--format',
      'psh',
      '--hash',
      'MD5',
      fixture.data,
    ]);
    like(said, /^a;3;f97c5d29941bfb1b2fdab0874906ab82$/m);
  },
  'lsf of one level': async (fixture) => {
    await three(fixture);
    equal(lines(await fixture.rclone(['lsf', fixture.data])).sort(), ['a', 'b/']);
  },
  lsjson: async (fixture) => {
    await three(fixture);
    const all = await found(fixture, '-R', '--files-only', '--hash', fixture.data);
    equal(all.map(({ Path, Size }) => [Path, Size]).sort(), [
      ['a', 3],
      ['b/c', 5],
      ['b/d/e', 17],
    ]);
    equal(all.find(({ Path }) => Path === 'a')?.Hashes?.['md5'], 'f97c5d29941bfb1b2fdab0874906ab82');
  },
  'lsjson of one file': async (fixture) => {
    await three(fixture);
    equal(JSON.parse(await fixture.rclone(['lsjson', '--stat', `${fixture.data}/b/c`])).Size, 5);
  },
  'lsl and size': async (fixture) => {
    await three(fixture);
    like(await fixture.rclone(['lsl', fixture.data]), /17 .* b\/d\/e/);
    equal(JSON.parse(await fixture.rclone(['size', '--json', fixture.data])), {
      count: 3,
      bytes: 25,
      sizeless: 0,
    });
  },
  'listings of the first version, in pages of two': async (fixture) => {
    const all = await three(fixture);
    const said = await fixture.rclone([
      ...['lsf', '-R', '--files-only', fixture.data, '--s3-list-version', '1'],
      ...['--s3-list-chunk', '2', '--fast-list'],
    ]);
    equal(lines(said).sort(), all);
  },
  'listings of the second version, in pages of two': async (fixture) => {
    const all = await three(fixture);
    const said = await fixture.rclone([
      ...['lsf', '-R', '--files-only', fixture.data, '--s3-list-version', '2'],
      ...['--s3-list-chunk', '2', '--fast-list', '--s3-list-url-encode', 'true'],
    ]);
    equal(lines(said).sort(), all);
  },
  'check that finds a difference': async (fixture) => {
    await three(fixture);
    write(fixture.local, { a: 'eno' });
    like(await fixture.fails(['check', fixture.local, fixture.data]), /1 differences found/);
  },
  'check in one direction': async (fixture) => {
    await three(fixture);
    await fixture.rclone(['rcat', `${fixture.data}/more`], 'x');
    await fixture.rclone(['check', '--one-way', fixture.local, fixture.data]);
    like(await fixture.fails(['check', fixture.local, fixture.data]), /1 differences found/);
  },
  'hashsum and md5sum': async (fixture) => {
    await three(fixture);
    like(await fixture.rclone(['hashsum', 'MD5', fixture.data]), /^f97c5d29941bfb1b2fdab0874906ab82 {2}a$/m);
    like(
      await fixture.rclone(['md5sum', '--download', fixture.data]),
      /^f97c5d29941bfb1b2fdab0874906ab82 {2}a$/m,
    );
  },
  'checksum against a list': async (fixture) => {
    await three(fixture);
    write(fixture.local, { sums: 'f97c5d29941bfb1b2fdab0874906ab82  a\n' });
    await fixture.rclone(['checksum', '--one-way', 'MD5', join(fixture.local, 'sums'), fixture.data]);
  },
  'cat of a range': async (fixture) => {
    await fixture.rclone(['rcat', `${fixture.data}/r`], '0123456789');
    const cat = (...flags: readonly string[]) => fixture.rclone(['cat', `${fixture.data}/r`, ...flags]);
    equal(await cat('--offset', '2', '--count', '3'), '234');
    equal(await cat('--offset', '-3'), '789');
    equal(await cat('--head', '4'), '0123');
    equal(await cat('--tail', '4'), '6789');
  },
  'cat of several': async (fixture) => {
    await three(fixture);
    like(await fixture.rclone(['cat', fixture.data, '--separator', '|']), /one/);
  },
  'unfinished uploads are listed and aborted': async (fixture) => {
    const { rclone, remote } = fixture;
    like(await rclone(['backend', 'list-multipart-uploads', `${remote()}data`]), /"data"/);
    await rclone(['cleanup', `${remote()}data`]);
  },
  'dedupe, with nothing to do': async (fixture) => {
    await three(fixture);
    await fixture.rclone(['dedupe', 'skip', fixture.data]);
    equal(await names(fixture), ['a', 'b/c', 'b/d/e']);
  },
};
