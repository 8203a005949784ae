import { afterAll, beforeAll, expect, it } from 'vitest';
import { query } from '../../../brokers/db/testing/postgres.ts';
import { eventually } from '../../../testing/eventually.ts';
import { type EmbeddedServer, startEmbeddedServer } from '../../../testing/postgres/server.ts';
import type { Place } from '../place.ts';
import { archiveNow } from './copies.ts';

/** A server that archives its log, and keeps what it has archived nowhere. */

let server: EmbeddedServer;
beforeAll(async () => {
  server = await startEmbeddedServer({ settings: { archive_mode: 'on', archive_command: 'true' } });
});
afterAll(() => server?.remove());

/** Asks the server as `psql` would, and calls `then` after each answer. */
const placeOf = (then: (statement: string, answer: string) => Promise<void>): Place => ({
  kube: {
    run: async (args, input = '') => {
      const sets = args.filter((_, index) => args[index - 1] === '-v').map((set) => set.split('='));
      const statement = sets.reduce(
        (text, [name, value]) => text.replaceAll(`:'${name}'`, `'${value}'`),
        input,
      );
      const [row = {}] = await query<Record<string, unknown>>(server.superuserUrl, statement);
      const [value] = Object.values(row);
      const answer = typeof value === 'boolean' ? String(value).charAt(0) : String(value);
      await then(statement, answer);
      return { code: 0, stdout: `${answer}\n`, stderr: '' };
    },
  },
  namespace: 'home-services',
  pod: 'postgres-0',
  container: 'postgres',
});

it('is seen to have archived its log also when it recovers right afterwards, which makes it forget that', async () => {
  let switched = '';
  const crashing = placeOf(async (statement, answer) => {
    if (!statement.includes('pg_switch_wal')) return;
    switched = answer;
    const done = 'SELECT FROM pg_ls_archive_statusdir() WHERE name = $1';
    await eventually(async () => (await query(server.superuserUrl, done, [`${answer}.done`])).length === 1, {
      what: 'the archived file',
    });
    await server.kill();
    await server.start();
  });
  await archiveNow(crashing, AbortSignal.timeout(60_000));
  expect(switched).toMatch(/^[0-9A-F]{24}$/);
  const told = await query(server.superuserUrl, 'SELECT last_archived_wal AS file FROM pg_stat_archiver');
  expect(told).toEqual([{ file: null }]);
});

it('is waited for while it has not archived its log, whether it has recovered or not', async () => {
  const settle = (command: string) =>
    query(server.superuserUrl, `ALTER SYSTEM SET archive_command = '${command}'`);
  await settle('false');
  await server.stop();
  await server.start();
  const ending = new AbortController();
  let looks = 0;
  const failing = placeOf(async (statement) => {
    if (!statement.includes('pg_stat_archiver')) return;
    looks += 1;
    if (looks === 3) {
      await server.kill();
      await server.start();
    }
    if (looks === 6) ending.abort();
  });
  await expect(archiveNow(failing, ending.signal)).rejects.toThrow('aborted');
  expect(looks).toBe(6);
});
