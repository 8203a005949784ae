import { expect, test } from 'vitest';
import { nothingLeaked } from './leaks.ts';

const TOKEN = `spc_dbp_${'a'.repeat(43)}`;

test.each<[string, unknown, RegExp | undefined]>([
  ['a token in a log line', `{"token":"${TOKEN}"}`, /logs hold a secret/],
  [
    'a URL with its password',
    { note: 'postgresql://role:word@127.0.0.1:5432/database' },
    /logs hold a secret/,
  ],
  ['a canary', 'the horse is here', /logs hold canary 1/],
  ['a URL without a password', 'postgresql://127.0.0.1:5432/database', undefined],
  ['the digest of a token', 'sha256:0123456789abcdef', undefined],
])('finds secrets and nothing else: %s', (_, thing, said) => {
  const scan = () => nothingLeaked({ logs: ['fine', thing] }, ['battery', 'horse']);
  if (said) expect(scan).toThrow(said);
  else expect(scan).not.toThrow();
});

test('says where a secret is, and never its value', () => {
  expect(() => nothingLeaked({ logs: [TOKEN] }, [])).toThrow(
    expect.objectContaining({ message: expect.not.stringContaining(TOKEN) }),
  );
});
