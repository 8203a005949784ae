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
])('after the sign-in a person comes to %s', (wanted) => {
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
])('and to the first page where they wanted %s', (wanted) => {
  expect(returnPath(wanted).text).toBe('/');
});

test('and to the page of an archive, which is no page itself', () => {
  expect(returnPath('/diagnostics/archive').text).toBe('/diagnostics');
});

test.each([
  ['/capsules/home/assistants/ledger/approve', '/capsules/home/assistants/ledger'],
  ['/capsules/home/assistants/ledger/inputs/bank', '/capsules/home/assistants/ledger'],
  ['/capsules/home/credentials/select', '/capsules/home/credentials'],
  ['/capsules/home/quota', '/capsules/home'],
  ['/sign-out', '/'],
])('a form at %s is of the page %s', (path, page) => {
  expect(pageOfAct(path).text).toBe(page);
});
