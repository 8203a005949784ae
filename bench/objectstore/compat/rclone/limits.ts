import { equal, like, lines, write } from '../outcome.ts';
import { names, type Play, three } from './ground.ts';

const refused =
  (...flags: readonly string[]): Play =>
  async (ground) => {
    write(ground.local, { a: 'x' });
    like(await ground.fails(['copy', ground.local, ground.data, ...flags]), /NotImplemented|501/);
    equal(await names(ground), []);
  };

/** What is refused by design, and stores nothing; and where that ends. */
export const LIMITS: Readonly<Record<string, Play>> = {
  'a name with a control character is refused': async (ground) => {
    write(ground.local, { 'a\u0001b': 'x' });
    like(await ground.fails(['copy', ground.local, ground.data]), /400/);
    equal(await names(ground), []);
  },
  'a link for half an hour opens, and one for a week does not': async (ground) => {
    await three(ground);
    const link = async (...flags: readonly string[]) =>
      fetch((await ground.rclone(['link', `${ground.data}/a`, ...flags])).trim());
    equal(await (await link('--expire', '30m')).text(), 'one');
    const week = await link();
    equal(week.status, 400);
    like(await week.text(), /AuthorizationQueryParametersError/);
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
  'directory markers': async (ground) => {
    await ground.rclone(['mkdir', `${ground.data}/dir`, '--s3-directory-markers']);
    equal(lines(await ground.rclone(['lsf', ground.data, '--s3-directory-markers'])), ['dir/']);
  },
  'a public ACL is refused': refused('--s3-acl', 'public-read'),
  'a storage class is refused': refused('--s3-storage-class', 'GLACIER'),
  'encryption by the server may be asked for': async (ground) => {
    write(ground.local, { a: 'x' });
    await ground.rclone(['copy', ground.local, ground.data, '--s3-server-side-encryption', 'AES256']);
    equal(await names(ground), ['a']);
  },
  'encryption by a key is refused': refused(
    '--s3-server-side-encryption',
    'aws:kms',
    '--s3-sse-kms-key-id',
    'k',
  ),
  'tags are refused': refused('--header-upload', 'x-amz-tagging: a=b'),
};
