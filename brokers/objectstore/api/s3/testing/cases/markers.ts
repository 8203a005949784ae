import { at, type Case, copy, get, gives, head, holds, list, put, refused, remove, step } from './case.ts';

const GONE = refused('404 NoSuchKey');
const EMPTY = 'd41d8cd98f00b204e9800998ecf8427e';

/** Directory markers: empty objects whose key ends in a slash, by which clients know a directory without objects. */
export const MARKERS: readonly Case[] = [
  {
    name: 'a directory marker is stored, read, described, listed and deleted',
    steps: [
      head('dir/', {}, refused('404')),
      get('dir/', {}, GONE),
      put('dir/', '', { ContentType: 'application/x-directory', Metadata: { mode: '16877' } }),
      head(
        'dir/',
        {},
        gives({ ContentLength: 0, ContentType: 'application/x-directory', Metadata: { mode: '16877' } }),
      ),
      get('dir/', {}, gives({ Body: '', ETag: `"${EMPTY}"` })),
      list({ Prefix: '{home}/' }, ['dir/']),
      list({ Prefix: at('dir/') }, ['dir/']),
      step(
        'ListObjectsV2',
        { Prefix: '{home}/', Delimiter: '/' },
        gives({ Contents: null, CommonPrefixes: [{ Prefix: at('dir/') }] }),
      ),
      remove('dir/'),
      head('dir/', {}, refused('404')),
      list({ Prefix: '{home}/' }, []),
    ],
  },
  {
    name: 'a directory marker stays when what lies below it goes, and goes when something lies below it',
    steps: [
      put('dir/', ''),
      put('dir/file', 'x'),
      list({ Prefix: '{home}/' }, ['dir/', 'dir/file']),
      remove('dir/file'),
      list({ Prefix: '{home}/' }, ['dir/']),
      put('dir/file', 'y'),
      remove('dir/'),
      list({ Prefix: '{home}/' }, ['dir/file']),
      holds('dir/file', 'y'),
      head('dir/', {}, refused('404')),
    ],
  },
  {
    name: 'the deletion of a directory that has no marker takes nothing away',
    steps: [
      put('dir/file', 'x'),
      remove('dir/'),
      remove('nowhere/'),
      step(
        'DeleteObjects',
        { Delete: { Objects: [{ Key: at('dir/') }] } },
        gives({ Deleted: [{ Key: at('dir/') }], Errors: null }),
      ),
      holds('dir/file', 'x'),
    ],
  },
  {
    name: 'directory markers are copied, and deleted with others',
    steps: [
      put('dir/', '', { Metadata: { mode: '16877' } }),
      put('dir/file', 'x'),
      copy('dir/', 'other/'),
      list({ Prefix: '{home}/' }, ['dir/', 'dir/file', 'other/']),
      head('other/', {}, gives({ Metadata: { mode: '16877' } })),
      copy('dir/', 'dir/', { MetadataDirective: 'REPLACE', Metadata: { mode: '16832' } }),
      head('dir/', {}, gives({ ContentLength: 0, Metadata: { mode: '16832' } })),
      holds('dir/file', 'x'),
      step(
        'DeleteObjects',
        { Delete: { Objects: [{ Key: at('dir/') }, { Key: at('dir/file') }, { Key: at('other/') }] } },
        gives({ Errors: null }),
      ),
      list({ Prefix: '{home}/' }, []),
    ],
  },
  {
    name: 'a directory marker has no content, however it might come',
    steps: [
      put('dir/', 'x', {}, refused('400 InvalidArgument')),
      put('file', 'x'),
      copy('file', 'dir/', {}, refused('400 InvalidArgument')),
      step('CreateMultipartUpload', { Key: at('dir/') }, refused('400 InvalidArgument')),
      head('dir/', {}, refused('404')),
      list({ Prefix: '{home}/' }, ['file']),
    ],
  },
  {
    name: 'an object and a directory of its name exclude each other, where the S3 server keeps files',
    steps: [
      put('a', 'x'),
      put('a/', '', {}, refused('409 OperationAborted')),
      head('a/', {}, refused('404')),
      get('a/', {}, GONE),
      remove('a/'),
      holds('a', 'x'),
      put('b/', ''),
      put('b', 'x', {}, refused('409 OperationAborted')),
      get('b', {}, GONE),
      remove('b'),
      head('b/', {}, gives({ ContentLength: 0 })),
    ],
  },
];
