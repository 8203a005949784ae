import { type Case, copy, get, gives, head, holds, type Params, put, refused, remove } from './case.ts';

const PAST = { $date: '2020-01-01T00:00:00Z' };
const FUTURE = { $date: '2099-01-01T00:00:00Z' };
const tagged = put('c', 'x', {}, { keep: { tag: 'ETag' } });
const OTHER = '"0123456789abcdef0123456789abcdef"';

const ranged = (Range: string, Body: string, ContentRange: string): Case => ({
  name: `range ${Range} of ten bytes is ${JSON.stringify(Body)}`,
  steps: [
    put('r', '0123456789'),
    get('r', { Range }, gives({ Body, ContentRange, ContentLength: Body.length })),
    head('r', { Range }, gives({ ContentLength: Body.length })),
  ],
});

/** A condition that the object at `c` meets, or the status with which it is refused. */
const read = (what: string, condition: Params, refusal?: string): Case => ({
  name: `a read ${what} is ${refusal ?? 'done'}`,
  steps: [
    tagged,
    get('c', condition, refusal === undefined ? gives({ Body: 'x' }) : refused(refusal)),
    head('c', condition, refusal === undefined ? {} : refused(refusal.slice(0, 3))),
  ],
});

const write = (what: string, condition: Params, refusal?: string): Case => ({
  name: `a write ${what} is ${refusal ?? 'done'}`,
  steps: [
    tagged,
    put('c', 'new', condition, refusal === undefined ? {} : refused(refusal)),
    holds('c', refusal === undefined ? 'new' : 'x'),
  ],
});

const copied = (what: string, condition: Params, refusal?: string): Case => ({
  name: `a copy of what ${what} is ${refusal ?? 'done'}`,
  steps: [
    tagged,
    copy('c', 'to', condition, refusal === undefined ? {} : refused(refusal)),
    refusal === undefined ? holds('to', 'x') : head('to', {}, refused('404')),
  ],
});

const FAILED = '412 PreconditionFailed';

export const READS: readonly Case[] = [
  ranged('bytes=0-0', '0', 'bytes 0-0/10'),
  ranged('bytes=2-5', '2345', 'bytes 2-5/10'),
  ranged('bytes=7-', '789', 'bytes 7-9/10'),
  ranged('bytes=0-', '0123456789', 'bytes 0-9/10'),
  ranged('bytes=-2', '89', 'bytes 8-9/10'),
  ranged('bytes=-100', '0123456789', 'bytes 0-9/10'),
  ranged('bytes=5-100', '56789', 'bytes 5-9/10'),
  ranged('bytes=9-9', '9', 'bytes 9-9/10'),
  ...['bytes=10-12', 'bytes=10-', 'bytes=999999999999-'].map((Range) => ({
    name: `range ${Range} of ten bytes is refused`,
    steps: [put('r', '0123456789'), get('r', { Range }, refused('416 InvalidRange'))],
  })),
  ...['bytes=0-1,3-4', 'bytes=a-b', 'lines=1-2', 'bytes=-'].map((Range) => ({
    name: `range ${Range}, which is not one of bytes, is refused`,
    steps: [put('r', '0123456789'), get('r', { Range }, refused('400 InvalidArgument'))],
  })),
  {
    name: 'a range across what is sent at once comes back as it was',
    steps: [
      put('r', { $bytes: 3_000_000 }),
      get('r', { Range: 'bytes=65530-1100000' }, gives({ Body: { $bytes: 1_034_471, $from: 65_530 } })),
      get('r', { Range: 'bytes=2999999-' }, gives({ Body: { $bytes: 1, $from: 2_999_999 } })),
    ],
  },

  read('if it matches', { IfMatch: '{tag}' }),
  read('if another matches', { IfMatch: OTHER }, FAILED),
  read('if it does not match', { IfNoneMatch: '{tag}' }, '304'),
  read('if another does not match', { IfNoneMatch: OTHER }),
  read('if modified since long ago', { IfModifiedSince: PAST }),
  read('if unmodified since long ago', { IfUnmodifiedSince: PAST }, FAILED),
  read('if unmodified since the future', { IfUnmodifiedSince: FUTURE }),
  {
    name: 'a range is read under a condition',
    steps: [
      tagged,
      get('c', { Range: 'bytes=0-0', IfMatch: '{tag}' }, gives({ Body: 'x', ContentRange: 'bytes 0-0/1' })),
      get('c', { Range: 'bytes=0-0', IfMatch: OTHER }, refused(FAILED)),
    ],
  },

  write('if it matches', { IfMatch: '{tag}' }),
  write('if another matches', { IfMatch: OTHER }, FAILED),
  write('if there is none', { IfNoneMatch: '*' }, FAILED),
  write('if it does not match, which no write knows', { IfNoneMatch: OTHER }, '400 InvalidArgument'),
  {
    name: 'a write if there is none makes the first and not the second',
    steps: [
      put('once', 'a', { IfNoneMatch: '*' }),
      put('once', 'b', { IfNoneMatch: '*' }, refused(FAILED)),
      holds('once', 'a'),
    ],
  },
  {
    name: 'a write of what is not there, if it matches, is refused',
    steps: [
      put('never', 'a', { IfMatch: OTHER }, refused('404 NoSuchKey')),
      head('never', {}, refused('404')),
    ],
  },
  {
    name: 'a delete is done only of what matches',
    steps: [
      tagged,
      remove('c', { IfMatch: OTHER }, refused(FAILED)),
      holds('c', 'x'),
      remove('c', { IfMatch: '{tag}' }),
      head('c', {}, refused('404')),
    ],
  },
  {
    name: 'a delete of whatever is there is refused where nothing is',
    steps: [
      tagged,
      remove('c', { IfMatch: '*' }),
      head('c', {}, refused('404')),
      remove('c', { IfMatch: '*' }, refused('404 NoSuchKey')),
    ],
  },

  copied('matches', { CopySourceIfMatch: '{tag}' }),
  copied('would have to be another', { CopySourceIfMatch: OTHER }, FAILED),
  copied('must not match', { CopySourceIfNoneMatch: '{tag}' }, FAILED),
  copied('must not be another', { CopySourceIfNoneMatch: OTHER }),
  copied('was modified since long ago', { CopySourceIfModifiedSince: PAST }),
  copied('was to be unmodified since long ago', { CopySourceIfUnmodifiedSince: PAST }, FAILED),
  copied('is unmodified since the future', { CopySourceIfUnmodifiedSince: FUTURE }),
  {
    name: 'a copy onto what is there, if there is none, changes nothing',
    steps: [
      put('from', 'new'),
      put('to', 'old'),
      copy('from', 'to', { IfNoneMatch: '*' }, refused('501 NotImplemented')),
      copy('from', 'to', { IfMatch: OTHER }, refused('501 NotImplemented')),
      holds('to', 'old'),
    ],
  },
];
