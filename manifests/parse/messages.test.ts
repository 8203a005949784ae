import { expect, it } from 'vitest';
import { parseManifest, summarize } from '../index.ts';
import { sampleManifest } from '../testing/samples.ts';
import { SENTENCES } from '../testing/sentences.ts';

it('says of every broken rule what is wrong, what is allowed and what was found', () => {
  // One message for each rule at each place; the sentences break most of them more than once.
  const told = new Map<string, string>();
  for (const { manifest } of SENTENCES) {
    const result = parseManifest(JSON.stringify(manifest));
    for (const { pointer, rule, message } of result.ok ? [] : result.errors) {
      const key = `${pointer.replaceAll(/[^ -~]/g, '?').slice(0, 60)} ${rule}`;
      if (!told.has(key)) told.set(key, message);
    }
  }
  expect([...told].map(([where, message]) => `${where}\n    ${message}`).join('\n')).toMatchSnapshot();
});

it('reports all errors at once, in the order of the document', () => {
  const { platform, network, ...rest } = structuredClone(sampleManifest({ inputs: 1, routes: 2 })) as Record<
    string,
    object
  >;
  const wrong = {
    network: { ...network, allowed_hosts: ['a', 'a', ''] },
    extra: 1,
    ...rest,
    platform: { ...platform, id: 'B', name: ' x' },
  };
  const result = parseManifest(JSON.stringify(wrong));
  expect(result.ok ? [] : result.errors.map(({ pointer }) => pointer)).toEqual([
    '/network/allowed_hosts/1',
    '/network/allowed_hosts/2',
    '/extra',
    '/platform/id',
    '/platform/name',
  ]);
});

it('summarises what does not fit into one line', () => {
  const error = (index: number) => ({
    pointer: `/x/${index}`,
    rule: 'type',
    message: 'must be text; found 1',
  });
  expect(summarize([error(0)])).toBe('/x/0: must be text; found 1');
  expect(
    summarize(
      Array.from({ length: 12 }, (_, i) => error(i)),
      2,
    ),
  ).toBe('/x/0: must be text; found 1; /x/1: must be text; found 1; and 10 more');
  expect(summarize([{ pointer: '', rule: 'type', message: 'is wrong' }])).toBe('/: is wrong');
  expect(summarize([{ pointer: '/a\u202eb', rule: 'x', message: 'is wrong' }])).toBe(
    '/a\\u{202E}b: is wrong',
  );
});
