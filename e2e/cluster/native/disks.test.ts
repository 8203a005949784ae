import { expect, test } from 'vitest';
import { disksOf, growths, isFull } from './disks.ts';

const GIB = 1024 ** 3;

test('folders on one file system need the sum of their growth', () => {
  const growing = [
    { path: '/state', gib: 2 },
    { path: '/cache', gib: 3 },
    { path: '/go', gib: 7 },
  ];
  const look = (path: string) =>
    path === '/cache' ? { id: 2, freeBytes: 3 * GIB } : { id: 1, freeBytes: 8 * GIB };
  const [first, second, ...others] = disksOf(growing, look);
  expect(others).toEqual([]);
  expect(first).toEqual({ paths: ['/state', '/go'], freeBytes: 8 * GIB, neededGib: 9 });
  expect(second).toEqual({ paths: ['/cache'], freeBytes: 3 * GIB, neededGib: 3 });
  expect([first, second].map((disk) => disk && isFull(disk))).toEqual([true, false]);
});

test('a folder that does not exist yet counts for the file system of its nearest existing parent', () => {
  const [disk, ...others] = disksOf([
    { path: '/', gib: 1 },
    { path: '/no/such/folder', gib: 1 },
  ]);
  expect(others).toEqual([]);
  expect(disk?.neededGib).toBe(2);
});

test('less grows when nothing has to be built', () => {
  const sum = (mustBuild: boolean) => growths('/state', mustBuild, 1).reduce((all, { gib }) => all + gib, 0);
  expect(sum(false)).toBeLessThan(sum(true));
});
