import { equal, like, lines, write } from '../../outcome.ts';
import { names, type Play, three } from './fixture.ts';

const refused =
  (...flags: readonly string[]): Play =>
  async (fixture) => {
    write(fixture.local, { a: 'x' });
    like(await fixture.fails(['copy', fixture.local, fixture.data, ...flags]), /NotImplemented|501/);
    equal(await names(fixture), []);
  };

/** Requests that are refused by design and store nothing, and similar ones that are permitted. */
export const LIMITS: Readonly<Record<string, Play>> = {
  'a name with a control character is refused': async (fixture) => {
    write(fixture.local, { 'a\u0001b': 'x' });
    like(await fixture.fails(['copy', fixture.local, fixture.data]), /400/);
    equal(await names(fixture), []);
  },
  'a link for half an hour works, and one for a week does not': async (fixture) => {
    await three(fixture);
    const link = async (...flags: readonly string[]) =>
      fetch((await fixture.rclone(['link', `${fixture.data}/a`, ...flags])).trim());
    equal(await (await link('--expire', '30m')).text(), 'one');
    const week = await link();
    equal(week.status, 400);
    like(await week.text(), /AuthorizationQueryParametersError/);
  },
  'other buckets do not exist': async ({ fails, rclone, remote }) => {
    like(await fails(['lsf', `${remote()}space`]), /directory not found|NoSuchBucket/);
    like(await fails(['rcat', `${remote()}space/a`]), /NoSuchBucket|404/);
    like(await fails(['mkdir', `${remote()}another`]), /NoSuchBucket|404/);
    like(await fails(['rmdir', `${remote()}data`]), /MethodNotAllowed|405|not empty/);
    equal(lines(await rclone(['lsf', remote()])), ['data/', 'shared/']);
  },
  'wrong keys are refused': async ({ fails, remote }) => {
    like(await fails(['lsf', remote({ SecretAccessKey: 'wrong' })]), /AccessDenied/);
    like(await fails(['lsf', remote({ AccessKeyId: `SPCK${'0'.repeat(32)}` })]), /AccessDenied/);
  },
  'old versions are refused': async (fixture) => {
    await three(fixture);
    like(await fixture.fails(['lsf', fixture.data, '--s3-versions']), /NotImplemented/);
    like(await fixture.fails(['lsf', fixture.data, '--s3-version-at', '2020-01-01']), /NotImplemented/);
  },
  'directory markers': async (fixture) => {
    await fixture.rclone(['mkdir', `${fixture.data}/dir`, '--s3-directory-markers']);
    equal(lines(await fixture.rclone(['lsf', fixture.data, '--s3-directory-markers'])), ['dir/']);
  },
  'a public ACL is refused': refused('--s3-acl', 'public-read'),
  'a storage class is refused': refused('--s3-storage-class', 'GLACIER'),
  'encryption by the server may be asked for': async (fixture) => {
    write(fixture.local, { a: 'x' });
    await fixture.rclone(['copy', fixture.local, fixture.data, '--s3-server-side-encryption', 'AES256']);
    equal(await names(fixture), ['a']);
  },
  'encryption by a key is refused': refused(
    '--s3-server-side-encryption',
    'aws:kms',
    '--s3-sse-kms-key-id',
    'k',
  ),
  'tags are refused': refused('--header-upload', 'x-amz-tagging: a=b'),
};
