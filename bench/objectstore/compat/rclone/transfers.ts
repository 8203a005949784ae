import { randomBytes } from 'node:crypto';
import { readFileSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { equal, like, md5, write } from '../outcome.ts';
import { found, large, MIB, names, OLD, PARTS, type Play, three } from './ground.ts';

/** Files that go there, come back, and are copied on the server. */
export const TRANSFERS: Readonly<Record<string, Play>> = {
  'copy there and back': async (ground) => {
    const all = await three(ground);
    const back = join(ground.local, 'back');
    await ground.rclone(['copy', ground.data, back]);
    for (const name of all) equal(md5(join(back, name)), md5(join(ground.local, name)));
  },
  'copy with nothing to do': async (ground) => {
    await three(ground);
    like(await ground.rclone(['copy', ground.local, ground.data, '--combined', '-']), /^= a$/m);
  },
  'copyto under another name, there and back': async (ground) => {
    await three(ground);
    await ground.rclone(['copyto', join(ground.local, 'a'), `${ground.data}/x/y`]);
    await ground.rclone(['copyto', `${ground.data}/x/y`, join(ground.local, 'back')]);
    equal(readFileSync(join(ground.local, 'back'), 'utf8'), 'one');
  },
  'copy of what a filter names': async (ground) => {
    await three(ground);
    await ground.rclone(['copy', ground.data, ground.shared, '--include', '/b/**', '--max-size', '10B']);
    equal(await names(ground, ground.shared), ['b/c']);
  },
  'copy by checksum, by size, and of what is newer': async (ground) => {
    await three(ground);
    write(ground.local, { a: 'two' });
    utimesSync(join(ground.local, 'a'), OLD, OLD);
    await ground.rclone(['copy', '--size-only', ground.local, ground.data]);
    await ground.rclone(['copy', '--update', ground.local, ground.data]);
    equal(await ground.rclone(['cat', `${ground.data}/a`]), 'one');
    await ground.rclone(['copy', '--checksum', ground.local, ground.data]);
    equal(await ground.rclone(['cat', `${ground.data}/a`]), 'two');
  },
  'copy that may change nothing': async (ground) => {
    await three(ground);
    write(ground.local, { a: 'another' });
    like(await ground.fails(['copy', '--immutable', ground.local, ground.data]), /immutable/);
    equal(await ground.rclone(['cat', `${ground.data}/a`]), 'one');
  },
  'rcat of nothing, of little, and of more than it keeps in memory': async (ground) => {
    const body = randomBytes(11 * MIB);
    await ground.rclone(['rcat', `${ground.data}/none`], '');
    await ground.rclone(['rcat', `${ground.data}/little`], 'x');
    await ground.rclone(['rcat', `${ground.data}/much`, '--streaming-upload-cutoff', '1M', ...PARTS], body);
    const sizes = (await found(ground, ground.data)).map(({ Path, Size }) => [Path, Size]).sort();
    equal(sizes, [
      ['little', 1],
      ['much', body.length],
      ['none', 0],
    ]);
    await ground.rclone(['copy', `${ground.data}/much`, ground.local]);
    equal(readFileSync(join(ground.local, 'much')).equals(body), true);
  },
  'rcat of a size that is said': async (ground) => {
    await ground.rclone(['rcat', '--size', '5', `${ground.data}/five`], 'abcde');
    equal(await ground.rclone(['cat', `${ground.data}/five`]), 'abcde');
  },
  'a file in parts': async (ground) => {
    large(ground);
    await ground.rclone(['copy', ground.local, ground.data, ...PARTS, '--s3-upload-concurrency', '3']);
    await ground.rclone(['check', '--download', ground.local, ground.data]);
    await ground.rclone(['check', ground.local, ground.data]);
  },
  'a file of many MiB at once': async (ground) => {
    large(ground);
    await ground.rclone(['copy', ground.local, ground.data, '--s3-upload-cutoff', '1G']);
    await ground.rclone(['check', ground.local, ground.data]);
  },
  'a file without checksums, and one with an unsigned body': async (ground) => {
    large(ground);
    await ground.rclone(['copy', ground.local, ground.data, ...PARTS, '--s3-disable-checksum']);
    await ground.rclone(['check', '--download', ground.local, ground.data]);
    await ground.rclone(['copy', ground.local, ground.shared, '--s3-use-unsigned-payload', 'true']);
    await ground.rclone(['check', '--download', ground.local, ground.shared]);
  },
  'a file fetched in several streams': async (ground) => {
    const file = large(ground);
    await ground.rclone(['copy', ground.local, ground.data]);
    const back = join(ground.local, 'back');
    await ground.rclone([
      'copyto',
      `${ground.data}/large`,
      back,
      ...['--multi-thread-cutoff', '1M', '--multi-thread-streams', '4'],
    ]);
    equal(md5(back), md5(file));
  },
  'a copy on the server': async (ground) => {
    const all = await three(ground);
    await ground.rclone(['copy', ground.data, ground.shared]);
    equal(await names(ground, ground.shared), all);
    await ground.rclone(['check', ground.data, ground.shared]);
  },
  'a copy in parts on the server': async (ground) => {
    large(ground);
    await ground.rclone(['copy', ground.local, ground.data]);
    await ground.rclone([
      'copyto',
      `${ground.data}/large`,
      `${ground.shared}/copy`,
      '--s3-copy-cutoff',
      '5M',
      ...PARTS,
    ]);
    await ground.rclone(['copyto', `${ground.shared}/copy`, join(ground.local, 'back')]);
    equal(md5(join(ground.local, 'back')), md5(join(ground.local, 'large')));
  },
  'metadata and headers of a file': async (ground) => {
    write(ground.local, { a: 'x' });
    await ground.rclone([
      ...['copy', ground.local, ground.data, '--metadata', '--metadata-set', 'colour=blue'],
      ...['--metadata-set', 'content-type=text/css', '--metadata-set', 'cache-control=no-cache'],
    ]);
    const [one] = await found(ground, '--metadata', ground.data);
    equal(one?.MimeType, 'text/css');
    equal([one?.Metadata?.['colour'], one?.Metadata?.['cache-control']], ['blue', 'no-cache']);
  },
  'metadata of a file without any': async (ground) => {
    await ground.rclone(['rcat', `${ground.data}/a`], 'x');
    const [one] = await found(ground, '--metadata', ground.data);
    equal(one?.Metadata?.['cache-control'], undefined);
  },
  'headers of an upload': async (ground) => {
    write(ground.local, { a: 'x' });
    await ground.rclone(['copy', ground.local, ground.data, '--header-upload', 'Content-Language: de']);
    const [one] = await found(ground, '--metadata', ground.data);
    equal(one?.Metadata?.['content-language'], 'de');
  },
  'without a look whether the bucket is there, and without one at what was stored': async (ground) => {
    write(ground.local, { a: 'x' });
    await ground.rclone(['copy', ground.local, ground.data, '--s3-no-check-bucket', '--s3-no-head']);
    equal(await ground.rclone(['cat', `${ground.data}/a`]), 'x');
  },
};
