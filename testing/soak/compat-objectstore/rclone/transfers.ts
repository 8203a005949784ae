import { randomBytes } from 'node:crypto';
import { readFileSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { equal, like, md5, write } from '../../outcome.ts';
import { found, large, MIB, names, OLD, PARTS, type Play, three } from './fixture.ts';

/** Cases that upload, download, and copy on the server. */
export const TRANSFERS: Readonly<Record<string, Play>> = {
  'copy there and back': async (fixture) => {
    const all = await three(fixture);
    const back = join(fixture.local, 'back');
    await fixture.rclone(['copy', fixture.data, back]);
    for (const name of all) equal(md5(join(back, name)), md5(join(fixture.local, name)));
  },
  'copy with nothing to do': async (fixture) => {
    await three(fixture);
    like(await fixture.rclone(['copy', fixture.local, fixture.data, '--combined', '-']), /^= a$/m);
  },
  'copyto under another name, there and back': async (fixture) => {
    await three(fixture);
    await fixture.rclone(['copyto', join(fixture.local, 'a'), `${fixture.data}/x/y`]);
    await fixture.rclone(['copyto', `${fixture.data}/x/y`, join(fixture.local, 'back')]);
    equal(readFileSync(join(fixture.local, 'back'), 'utf8'), 'one');
  },
  'copy of files that a filter selects': async (fixture) => {
    await three(fixture);
    await fixture.rclone(['copy', fixture.data, fixture.shared, '--include', '/b/**', '--max-size', '10B']);
    equal(await names(fixture, fixture.shared), ['b/c']);
  },
  'copy by checksum, by size, and of newer files': async (fixture) => {
    await three(fixture);
    write(fixture.local, { a: 'two' });
    utimesSync(join(fixture.local, 'a'), OLD, OLD);
    await fixture.rclone(['copy', '--size-only', fixture.local, fixture.data]);
    await fixture.rclone(['copy', '--update', fixture.local, fixture.data]);
    equal(await fixture.rclone(['cat', `${fixture.data}/a`]), 'one');
    await fixture.rclone(['copy', '--checksum', fixture.local, fixture.data]);
    equal(await fixture.rclone(['cat', `${fixture.data}/a`]), 'two');
  },
  'copy that may change nothing': async (fixture) => {
    await three(fixture);
    write(fixture.local, { a: 'another' });
    like(await fixture.fails(['copy', '--immutable', fixture.local, fixture.data]), /immutable/);
    equal(await fixture.rclone(['cat', `${fixture.data}/a`]), 'one');
  },
  'rcat of no bytes, of one, and of more than rclone keeps in memory': async (fixture) => {
    const body = randomBytes(11 * MIB);
    await fixture.rclone(['rcat', `${fixture.data}/none`], '');
    await fixture.rclone(['rcat', `${fixture.data}/little`], 'x');
    await fixture.rclone(['rcat', `${fixture.data}/much`, '--streaming-upload-cutoff', '1M', ...PARTS], body);
    const sizes = (await found(fixture, fixture.data)).map(({ Path, Size }) => [Path, Size]).sort();
    equal(sizes, [
      ['little', 1],
      ['much', body.length],
      ['none', 0],
    ]);
    await fixture.rclone(['copy', `${fixture.data}/much`, fixture.local]);
    equal(readFileSync(join(fixture.local, 'much')).equals(body), true);
  },
  'rcat of a given size': async (fixture) => {
    await fixture.rclone(['rcat', '--size', '5', `${fixture.data}/five`], 'abcde');
    equal(await fixture.rclone(['cat', `${fixture.data}/five`]), 'abcde');
  },
  'a file in parts': async (fixture) => {
    large(fixture);
    await fixture.rclone(['copy', fixture.local, fixture.data, ...PARTS, '--s3-upload-concurrency', '3']);
    await fixture.rclone(['check', '--download', fixture.local, fixture.data]);
    await fixture.rclone(['check', fixture.local, fixture.data]);
  },
  'a file of many MiB at once': async (fixture) => {
    large(fixture);
    await fixture.rclone(['copy', fixture.local, fixture.data, '--s3-upload-cutoff', '1G']);
    await fixture.rclone(['check', fixture.local, fixture.data]);
  },
  'a file without checksums, and one with an unsigned body': async (fixture) => {
    large(fixture);
    await fixture.rclone(['copy', fixture.local, fixture.data, ...PARTS, '--s3-disable-checksum']);
    await fixture.rclone(['check', '--download', fixture.local, fixture.data]);
    await fixture.rclone(['copy', fixture.local, fixture.shared, '--s3-use-unsigned-payload', 'true']);
    await fixture.rclone(['check', '--download', fixture.local, fixture.shared]);
  },
  'a file fetched in several streams': async (fixture) => {
    const file = large(fixture);
    await fixture.rclone(['copy', fixture.local, fixture.data]);
    const back = join(fixture.local, 'back');
    await fixture.rclone([
      'copyto',
      `${fixture.data}/large`,
      back,
      ...['--multi-thread-cutoff', '1M', '--multi-thread-streams', '4'],
    ]);
    equal(md5(back), md5(file));
  },
  'a copy on the server': async (fixture) => {
    const all = await three(fixture);
    await fixture.rclone(['copy', fixture.data, fixture.shared]);
    equal(await names(fixture, fixture.shared), all);
    await fixture.rclone(['check', fixture.data, fixture.shared]);
  },
  'a copy in parts on the server': async (fixture) => {
    large(fixture);
    await fixture.rclone(['copy', fixture.local, fixture.data]);
    await fixture.rclone([
      'copyto',
      `${fixture.data}/large`,
      `${fixture.shared}/copy`,
      '--s3-copy-cutoff',
      '5M',
      ...PARTS,
    ]);
    await fixture.rclone(['copyto', `${fixture.shared}/copy`, join(fixture.local, 'back')]);
    equal(md5(join(fixture.local, 'back')), md5(join(fixture.local, 'large')));
  },
  'metadata and headers of a file': async (fixture) => {
    write(fixture.local, { a: 'x' });
    await fixture.rclone([
      ...['copy', fixture.local, fixture.data, '--metadata', '--metadata-set', 'colour=blue'],
      ...['--metadata-set', 'content-type=text/css', '--metadata-set', 'cache-control=no-cache'],
    ]);
    const [one] = await found(fixture, '--metadata', fixture.data);
    equal(one?.MimeType, 'text/css');
    equal([one?.Metadata?.['colour'], one?.Metadata?.['cache-control']], ['blue', 'no-cache']);
  },
  'metadata of a file without any': async (fixture) => {
    await fixture.rclone(['rcat', `${fixture.data}/a`], 'x');
    const [one] = await found(fixture, '--metadata', fixture.data);
    equal(one?.Metadata?.['cache-control'], undefined);
  },
  'headers of an upload': async (fixture) => {
    write(fixture.local, { a: 'x' });
    await fixture.rclone(['copy', fixture.local, fixture.data, '--header-upload', 'Content-Language: de']);
    const [one] = await found(fixture, '--metadata', fixture.data);
    equal(one?.Metadata?.['content-language'], 'de');
  },
  'copy without checking the bucket and the stored object': async (fixture) => {
    write(fixture.local, { a: 'x' });
    await fixture.rclone(['copy', fixture.local, fixture.data, '--s3-no-check-bucket', '--s3-no-head']);
    equal(await fixture.rclone(['cat', `${fixture.data}/a`]), 'x');
  },
};
