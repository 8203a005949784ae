import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, rmSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { equal, like, lines, md5, NAMES, write } from './outcome.ts';
import type { Ground } from './rclone.ts';

type Play = (ground: Ground) => Promise<void>;

const MIB = 1024 * 1024;
/** rclone's least. */
const PARTS = ['--s3-chunk-size', '5M', '--s3-upload-cutoff', '5M'];
const OLD = new Date('2020-02-03T04:05:06.789Z');

interface Listed {
  readonly Path: string;
  readonly Size: number;
  readonly ModTime: string;
  readonly MimeType: string;
  readonly Hashes?: Readonly<Record<string, string>>;
  readonly Metadata?: Readonly<Record<string, string>>;
}

const found = async ({ rclone }: Ground, ...args: readonly string[]): Promise<readonly Listed[]> =>
  JSON.parse(await rclone(['lsjson', ...args]));

/** Three files, here and there. */
async function three(ground: Ground): Promise<readonly string[]> {
  write(ground.local, { a: 'one', 'b/c': 'three', 'b/d/e': 'seventeen letters' });
  await ground.rclone(['copy', ground.local, ground.data]);
  return ['a', 'b/c', 'b/d/e'];
}

/** One file of 12 MiB. */
function large(ground: Ground): string {
  write(ground.local, { large: randomBytes(12 * MIB + 1) });
  return join(ground.local, 'large');
}

async function names(ground: Ground, at = ground.data): Promise<string[]> {
  return lines(await ground.rclone(['lsf', '-R', '--files-only', at])).sort();
}

const refused =
  (...flags: readonly string[]): Play =>
  async (ground) => {
    write(ground.local, { a: 'x' });
    like(await ground.fails(['copy', ground.local, ground.data, ...flags]), /NotImplemented|501/);
    equal(await names(ground), []);
  };

const named =
  (name: string): Play =>
  async (ground) => {
    write(ground.local, { [name]: name });
    await ground.rclone(['copy', ground.local, ground.data]);
    equal(await names(ground), [name]);
    await ground.rclone(['check', '--download', ground.local, ground.data]);
    await ground.rclone(['moveto', `${ground.data}/${name}`, `${ground.data}/moved/${name}`]);
    equal(await ground.rclone(['cat', `${ground.data}/moved/${name}`]), name);
    await ground.rclone(['deletefile', `${ground.data}/moved/${name}`]);
    equal(await names(ground), []);
  };

/** Each on ground of its own, so that several go at once. */
export const RCLONE_CASES: Readonly<Record<string, Play>> = {
  ...Object.fromEntries(NAMES.map((name) => [`a file named ${name.slice(0, 20)}`, named(name)])),
  'a name with a control character is refused': async (ground) => {
    write(ground.local, { 'a\u0001b': 'x' });
    like(await ground.fails(['copy', ground.local, ground.data]), /400/);
    equal(await names(ground), []);
  },
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
  'sync of what is new, changed and gone': async (ground) => {
    await three(ground);
    rmSync(join(ground.local, 'a'));
    write(ground.local, { 'b/c': 'changed', f: 'new' });
    await ground.rclone(['sync', ground.local, ground.data]);
    equal(await names(ground), ['b/c', 'b/d/e', 'f']);
    await ground.rclone(['check', '--download', ground.local, ground.data]);
  },
  'sync that keeps what it takes away': async (ground) => {
    await three(ground);
    rmSync(join(ground.local, 'a'));
    await ground.rclone(['sync', ground.local, ground.data, '--backup-dir', ground.shared]);
    equal(await ground.rclone(['cat', `${ground.shared}/a`]), 'one');
  },
  'sync from the store to a directory': async (ground) => {
    await three(ground);
    const back = join(ground.local, 'back');
    write(back, { stale: 'x' });
    await ground.rclone(['sync', ground.data, back]);
    equal(readdirSync(back).sort(), ['a', 'b']);
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
  'a move on the server': async (ground) => {
    const all = await three(ground);
    await ground.rclone(['move', ground.data, ground.shared]);
    equal([await names(ground), await names(ground, ground.shared)], [[], all]);
  },
  'a move from a directory': async (ground) => {
    write(ground.local, { a: 'x' });
    await ground.rclone(['move', ground.local, ground.data]);
    equal([readdirSync(ground.local), await names(ground)], [[], ['a']]);
  },
  'moveto of one': async (ground) => {
    await three(ground);
    await ground.rclone(['moveto', `${ground.data}/a`, `${ground.data}/z`]);
    equal(await names(ground), ['b/c', 'b/d/e', 'z']);
  },
  'delete of what a filter names': async (ground) => {
    await three(ground);
    await ground.rclone(['delete', ground.data, '--include', 'c']);
    equal(await names(ground), ['a', 'b/d/e']);
  },
  'deletefile of one, and of none': async (ground) => {
    await three(ground);
    await ground.rclone(['deletefile', `${ground.data}/a`]);
    equal(await names(ground), ['b/c', 'b/d/e']);
    like(await ground.fails(['deletefile', `${ground.data}/a`]), /not found/);
  },
  purge: async (ground) => {
    await three(ground);
    await ground.rclone(['purge', `${ground.data}/b`]);
    equal(await names(ground), ['a']);
  },
  'mkdir and rmdir, which change nothing': async (ground) => {
    await three(ground);
    await ground.rclone(['mkdir', `${ground.data}/empty`]);
    await ground.rclone(['rmdirs', ground.data]);
    equal(await names(ground), ['a', 'b/c', 'b/d/e']);
  },
  'the time of a file, kept with it': async (ground) => {
    write(ground.local, { a: 'x' });
    utimesSync(join(ground.local, 'a'), OLD, OLD);
    await ground.rclone(['copy', ground.local, ground.data]);
    equal(
      (await found(ground, ground.data)).map(({ ModTime }) => new Date(ModTime).getTime()),
      [OLD.getTime()],
    );
    await ground.rclone(['copy', `${ground.data}/a`, join(ground.local, 'back')]);
    await ground.rclone(['check', ground.local, ground.data, '--exclude', 'back/**']);
  },
  'the time of a file, changed alone': async (ground) => {
    await three(ground);
    utimesSync(join(ground.local, 'a'), OLD, OLD);
    await ground.rclone(['sync', ground.local, ground.data]);
    const one = (await found(ground, ground.data)).find(({ Path }) => Path === 'a');
    equal(new Date(one?.ModTime ?? '').getTime(), OLD.getTime());
    equal(await ground.rclone(['cat', `${ground.data}/a`]), 'one');
  },
  'touch of what is there, and of what is not': async (ground) => {
    await three(ground);
    await ground.rclone(['touch', '--timestamp', '2020-02-03T04:05:06', `${ground.data}/a`]);
    await ground.rclone(['touch', '--timestamp', '2020-02-03T04:05:06', `${ground.data}/new`]);
    await ground.rclone(['touch', '--no-create', `${ground.data}/never`]);
    const all = (await found(ground, '--files-only', ground.data)).map(({ Path, Size, ModTime }) => [
      Path,
      Size,
      ModTime.slice(0, 4),
    ]);
    equal(all.sort(), [
      ['a', 3, '2020'],
      ['new', 0, '2020'],
    ]);
    equal(await ground.rclone(['cat', `${ground.data}/a`]), 'one');
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
  'uploads that nobody finished: listed and given up': async (ground) => {
    const { rclone, remote } = ground;
    like(await rclone(['backend', 'list-multipart-uploads', `${remote()}data`]), /"data"/);
    await rclone(['cleanup', `${remote()}data`]);
  },
  'versioning: there is none': async ({ rclone, remote }) =>
    like(await rclone(['backend', 'versioning', `${remote()}data`]), /Unversioned/),
  'dedupe, with nothing to do': async (ground) => {
    await three(ground);
    await ground.rclone(['dedupe', 'skip', ground.data]);
    equal(await names(ground), ['a', 'b/c', 'b/d/e']);
  },
  'without a look whether the bucket is there, and without one at what was stored': async (ground) => {
    write(ground.local, { a: 'x' });
    await ground.rclone(['copy', ground.local, ground.data, '--s3-no-check-bucket', '--s3-no-head']);
    equal(await ground.rclone(['cat', `${ground.data}/a`]), 'x');
  },
  'a public link, which opens nothing': async (ground) => {
    await three(ground);
    const link = (await ground.rclone(['link', `${ground.data}/a`])).trim();
    equal((await fetch(link)).status, 403);
  },
  'other buckets, which are not there': async ({ fails, rclone, remote }) => {
    like(await fails(['lsf', `${remote()}space`]), /directory not found|NoSuchBucket/);
    like(await fails(['rcat', `${remote()}space/a`]), /NoSuchBucket|404/);
    like(await fails(['mkdir', `${remote()}another`]), /NoSuchBucket|404/);
    like(await fails(['rmdir', `${remote()}data`]), /MethodNotAllowed|405|not empty/);
    equal(lines(await rclone(['lsf', remote()])), ['data/', 'shared/']);
  },
  'wrong keys, which are refused': async ({ fails, remote }) => {
    like(await fails(['lsf', remote({ SecretAccessKey: 'wrong' })]), /AccessDenied/);
    like(await fails(['lsf', remote({ AccessKeyId: `SPCK${'0'.repeat(32)}` })]), /AccessDenied/);
  },
  'old versions are refused': async (ground) => {
    await three(ground);
    like(await ground.fails(['lsf', ground.data, '--s3-versions']), /NotImplemented/);
    like(await ground.fails(['lsf', ground.data, '--s3-version-at', '2020-01-01']), /NotImplemented/);
  },
  'directory markers are refused': async (ground) => {
    like(await ground.fails(['mkdir', `${ground.data}/dir`, '--s3-directory-markers']), /InvalidArgument/);
    equal(await names(ground), []);
  },
  'a public ACL is refused': refused('--s3-acl', 'public-read'),
  'a storage class is refused': refused('--s3-storage-class', 'GLACIER'),
  'encryption by the server is refused': refused('--s3-server-side-encryption', 'AES256'),
  'encryption by a key is refused': refused(
    '--s3-server-side-encryption',
    'aws:kms',
    '--s3-sse-kms-key-id',
    'k',
  ),
  'tags are refused': refused('--header-upload', 'x-amz-tagging: a=b'),
};
