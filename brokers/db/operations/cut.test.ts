import { createLogger } from '@space/broker-kit';
import { type Session, StepError } from '@space/broker-kit/postgres';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { observe } from '../isolation/observe.ts';
import { connect, type Fixture, intoDatabase, openFixture, sqlstate } from '../testing/postgres.ts';
import { endSessions, withCut } from './cut.ts';

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture();
});
afterAll(() => fixture.close());

const raced = () =>
  new StepError('cut access', Object.assign(new Error('concurrently updated'), { code: 'XX000' }));

it('a cut that lost a race locks the database for its next attempt, whatever sessions exist or arrive', async () => {
  const capsule = await fixture.broker.capsule('fought');
  const url: string = (await capsule.create('fought', 'app')).json.database_url;
  const name = new URL(url).pathname.slice(1);
  const held = await connect(url);
  let attempts = 0;
  let knock: Promise<string> | undefined;
  await withCut(fixture.broker.context, async (session, cut) => {
    attempts += 1;
    if (attempts === 1) throw raced();
    await cut([{ name, ...(await observe(session, name)) }]);
    // Nothing is committed, and no session exists.
    expect(await fixture.sql('SELECT 1 FROM pg_stat_activity WHERE datname = $1', [name])).toEqual([]);
    knock = sqlstate(url);
    // One that has authenticated is waiting to complete its login.
    const at =
      "SELECT 1 FROM pg_locks WHERE locktype = 'object' AND NOT granted AND mode = 'RowExclusiveLock'";
    while ((await fixture.sql(at)).length === 0) await new Promise((resolve) => setTimeout(resolve, 10));
  });
  expect(attempts).toBe(2);
  expect(await knock).not.toBe('ok');
  await expect(held.query('SELECT 1')).rejects.toThrow();
});

it('a cut that lost a race ends access though a session cannot be ended, so that nothing can lock the database', async () => {
  const capsule = await fixture.broker.capsule('occupied');
  const url: string = (await capsule.create('occupied', 'app')).json.database_url;
  const name = new URL(url).pathname.slice(1);
  const stays = await connect(intoDatabase(fixture.server.superuserUrl, name));
  const held = await connect(url);
  let attempts = 0;
  await withCut(fixture.broker.context, async (session, cut) => {
    attempts += 1;
    if (attempts === 1) throw raced();
    await cut([{ name, ...(await observe(session, name)) }]);
  });
  expect(await sqlstate(url)).not.toBe('ok');
  await expect(held.query('SELECT 1')).rejects.toThrow();
  await stays.end();
});

it('sessions that cannot be ended are reported, and do not block later steps', async () => {
  const lines: string[] = [];
  const log = createLogger({
    service: 'test',
    level: 'warn',
    destination: { write: (line) => void lines.push(line) },
  });
  const run: Session['run'] = async (step) => {
    throw new StepError(step, Object.assign(new Error('not allowed'), { code: '42501' }));
  };
  await endSessions({ ...fixture.broker.context, log }, { run, read: run }, ['spc_name']);
  expect(lines.map((line) => JSON.parse(line).msg)).toEqual(['sessions are not ended yet']);
});
