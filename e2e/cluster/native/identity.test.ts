import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { identityOf, isAlive } from './identity.ts';

const BOOT = '/proc/sys/kernel/random/boot_id';

/** A fake /proc with the given processes. */
const proc =
  (stat: string, boot = 'boot-1') =>
  (path: string) =>
    path === BOOT ? boot : stat;
const stat = (name: string, started: number, state = 'S') =>
  `42 (${name}) ${state} ${Array.from({ length: 18 }, () => '0').join(' ')} ${started} 0 0`;

test('a program may have any name', () => {
  expect(identityOf(42, proc(stat('a) b (c', 777)))).toEqual({ pid: 42, started: '777', boot: 'boot-1' });
});

test('another process with the same pid is not the same', () => {
  const identity = identityOf(42, proc(stat('etcd', 777)))!;
  expect(isAlive(identity, proc(stat('etcd', 777)))).toBe(true);
  expect(isAlive(identity, proc(stat('etcd', 778)))).toBe(false);
});

test('the same pid and start time after a reboot is another process', () => {
  const identity = identityOf(42, proc(stat('etcd', 777)))!;
  expect(isAlive(identity, proc(stat('etcd', 777), 'boot-2'))).toBe(false);
});

test('a zombie is not alive', () => {
  const identity = identityOf(42, proc(stat('etcd', 777)))!;
  expect(isAlive(identity, proc(stat('etcd', 777, 'Z')))).toBe(false);
});

test('a real process is alive until it ends', async () => {
  const child = spawn('sleep', ['60']);
  const identity = identityOf(child.pid!)!;
  expect(isAlive(identity)).toBe(true);
  child.kill();
  await once(child, 'exit');
  expect(isAlive(identity)).toBe(false);
});
