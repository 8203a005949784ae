import { expect, test } from 'vitest';
import { pageOfAct, returnPath } from './return-path.ts';

test.each([
  '/capsules',
  '/sandbox',
  '/diagnostics',
  '/capsules/home',
  '/capsules/home-1/credentials',
  '/capsules/home/assistants/ledger',
  '/capsules/home/assistants/a.b-1',
])('after the sign-in a person is redirected to %s', (wanted) => {
  expect(returnPath(wanted).text).toBe(wanted);
});

test.each([
  undefined,
  '',
  '/',
  '/other',
  '//evil.example',
  'https://evil.example/capsules/home',
  'x/capsules/home',
  '/capsules/',
  '/capsules/-home',
  '/capsules/Home',
  '/capsules/home/',
  '/capsules/home/other',
  '/capsules/home/credentials/x',
  '/capsules/home/assistants/a/b',
  '/capsules/home?x',
  `/capsules/${'a'.repeat(41)}`,
])('a person who requested %s is redirected to the first page', (wanted) => {
  expect(returnPath(wanted).text).toBe('/');
});

test('a person who requested an archive is redirected to its page', () => {
  expect(returnPath('/diagnostics/archive').text).toBe('/diagnostics');
});

test.each([
  ['/capsules/home/assistants/ledger/approve', '/capsules/home/assistants/ledger'],
  ['/capsules/home/assistants/ledger/inputs/bank', '/capsules/home/assistants/ledger'],
  ['/capsules/home/credentials/select', '/capsules/home/credentials'],
  ['/capsules/home/quota', '/capsules/home'],
  ['/sign-out', '/'],
])('a form at %s belongs to the page %s', (path, page) => {
  expect(pageOfAct(path).text).toBe(page);
});
