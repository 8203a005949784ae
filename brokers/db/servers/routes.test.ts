import { pino } from 'pino';
import { expect, test } from 'vitest';
import { createRoutes } from './routes.ts';
import type { DatabaseServer, Usable } from './server.ts';

const log = pino({ level: 'silent' });

const serverOf = (name: string, answers: boolean): DatabaseServer => ({
  name,
  weight: 1,
  drain: false,
  state: () => (answers ? { kind: 'ready' } : { kind: 'unreachable', why: 'it does not answer' }),
  opened: () => ({ context: { connections: { lookup: { read: async () => [] } } } }) as unknown as Usable,
});

test('while the first server is unavailable, recently used Capsules are found, and those of long ago are forgotten', async () => {
  const { whereIs, follow } = createRoutes([serverOf('main', false), serverOf('other', true)], log);
  const see = (capsule: string) => follow(capsule, { server: 'other', movingTo: null, onMain: false });
  see('long-ago');
  see('steady');
  for (let at = 0; at < 9_999; at += 1) see(`home-${at}`);
  see('steady');
  see('last');
  expect(await whereIs('steady')).toMatchObject({ server: 'other' });
  await expect(whereIs('long-ago')).rejects.toThrow('does not answer');
});
