import { describe, expect, it } from 'vitest';
import { rawHeadersOf } from './credentials.ts';
import { sealedTag, withHostTags } from './entity-tags.ts';
import { responseHeaders } from './headers.ts';
import { scrubberOf } from './scrub.ts';

const seal = (tag: string) => `sealed:${Buffer.from(tag).toString('base64url')}`;
const open = (text: string) =>
  text.startsWith('sealed:') ? Buffer.from(text.slice(7), 'base64url').toString() : undefined;
const NONE = '"of-no-answer-through-this-gateway"';
const [A, B] = [`"${seal('"a"')}"`, `"${seal('"b"')}"`];

it.each([
  ['"a"', A],
  ['W/"a"', `W/${A}`],
  [' W/"a" ', `W/${A}`],
  ['bare', `"${seal('bare')}"`],
  ['""', `"${seal('""')}"`],
])('the tag %j is rewritten as %j', (value, expected) => {
  expect(sealedTag(value, seal)).toBe(expected);
});

it('a tag with spaces in it takes no longer than another of its length', () => {
  const tag = `"a${' '.repeat(100_000)}b"`;
  const before = process.cpuUsage();
  sealedTag(` ${tag} `, () => 'x');
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1_000).toBeLessThan(1_000);
  expect(sealedTag(`\tW/${tag} `, (text) => text)).toBe(`W/"${tag}"`);
});

it('an answer has one tag, and no other is sealed', () => {
  const raw = ['a', 'b', 'c'].flatMap((tag) => ['ETag', `"${tag}"`]);
  const returned = responseHeaders(
    rawHeadersOf([...raw, 'x-etag', 'd']),
    scrubberOf(['s3cr3t-of-the-bank']),
    seal,
  );
  expect(returned).toEqual(['ETag', A, 'x-etag', 'd']);
});

describe('a condition of a request', () => {
  const condition = (name: string, value: string, method: 'GET' | 'PUT' = 'GET') =>
    withHostTags(['x', '"x"', name, value], method, open).slice(2);

  it.each([
    [A, '"a"'],
    [`W/${A}`, 'W/"a"'],
    [`${A}, W/${B}`, '"a", W/"b"'],
    [` ${A},${B} `, '"a", "b"'],
    [A.slice(1, -1), '"a"'],
    ['*', '*'],
  ])('of %s has the host’s own tags', (value, expected) => {
    for (const name of ['If-Match', 'if-none-match'])
      expect(condition(name, value)).toEqual([name, expected]);
  });

  it.each(['"guess"', 'guess', 'W/"guess"', '', ',', '"', '"sealed"'])('of %j matches nothing', (value) => {
    expect(condition('If-None-Match', value)[1]).toMatch(/^(?:W\/)?"of-no-answer-through-this-gateway"$/);
    expect(condition('If-Match', value)[1]).toBe(NONE);
    expect(condition('If-None-Match', value, 'PUT')[1]).toBe(NONE);
  });

  it('of a write may have one tag from the body of an API, and no more than one', () => {
    expect(condition('If-Match', 'W/"told"', 'PUT')[1]).toBe('W/"told"');
    expect(condition('If-Match', `"one", ${A}, "two"`, 'PUT')[1]).toBe(`"one", "a", ${NONE}`);
    expect(withHostTags(['if-match', '"one"', 'If-Match', '"two"'], 'PUT', open)[3]).toBe(NONE);
  });

  it('has a limited number of tags that are read', () => {
    let looked = 0;
    withHostTags(['if-none-match', '"x",'.repeat(5_000)], 'GET', () => {
      looked += 1;
      return undefined;
    });
    expect(looked).toBe(32);
  });

  it('has so many tags together with the other conditions of its request', () => {
    let looked = 0;
    const many = Array.from({ length: 100 }, (_, at) => [at % 2 ? 'If-Match' : 'if-none-match', '"x", "y"']);
    const given = withHostTags(many.flat(), 'GET', () => {
      looked += 1;
      return undefined;
    });
    expect(looked).toBe(32);
    expect(given.slice(30, 34)).toEqual(['If-Match', `${NONE}, ${NONE}`, 'if-none-match', NONE]);
  });

  it('is the only header that is changed', () => {
    const others = ['ETag', A, 'x-if-match', '"guess"', 'if-match-x', A];
    expect(withHostTags(others, 'GET', open)).toEqual(others);
  });
});
