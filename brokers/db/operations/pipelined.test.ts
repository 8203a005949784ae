import { digestOf, newToken } from '@space/broker-kit';
import { type Session, SQLSTATE } from '@space/broker-kit/postgres';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Context } from '../context.ts';
import { adoptSpares, makeSpare } from '../spares/pool.ts';
import { connect, type Fixture, openFixture } from '../testing/postgres.ts';
import { createApp, provisionCapsule } from './provision.ts';

/** Statements of one transaction that go out one behind the other. */
let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture({}, { environment: { SPARE_DATABASES: '0' } });
  await fixture.registry('CREATE TABLE held (n int UNIQUE); GRANT ALL ON held TO PUBLIC');
});
afterAll(() => fixture.close());

it('all statements fail after the first failure, which is the one that is reported', async () => {
  const holder = await connect(fixture.server.superuserUrl.replace(/\/postgres$/, '/space_registry'));
  await holder.query('BEGIN; LOCK TABLE held');
  // Its promise settles a few turns later than that of the statement behind it.
  const later = async (session: Session) => {
    const rows = async () =>
      session.run('first', "SET LOCAL lock_timeout = '10ms'; SELECT 1 FROM public.held");
    const once = async () => [...(await rows())];
    return [...(await once())];
  };
  const failed = fixture.broker.context.connections.transaction((session) =>
    Promise.all([
      later(session),
      session.run('second', 'SET LOCAL work_mem = 64'),
      session.run('third', 'SET LOCAL work_mem = 64'),
    ]),
  );
  await expect(failed).rejects.toMatchObject({ step: 'first', code: SQLSTATE.lockNotAvailable });
  await holder.end();
});

it('no statement is sent once the transaction has ended', async () => {
  let kept: Session | undefined;
  await fixture.broker.context.connections.transaction(async (session) => {
    kept = session;
  });
  await expect(kept?.run('late', 'SELECT 1')).rejects.toThrow(/late: its session has ended/);
});

it('no statement is sent on a session that was returned', async () => {
  const { connections } = fixture.broker.context;
  for (const lend of [connections.session, connections.dropping]) {
    let kept: Session | undefined;
    await lend(async (session) => {
      kept = session;
    });
    await expect(kept?.run('late', 'SELECT 1')).rejects.toThrow(/late: its session has ended/);
  }
});

it('a duplicate that is not caused by a race is tried twice', async () => {
  await fixture.registry('INSERT INTO held VALUES (1)');
  let tries = 0;
  const failed = fixture.broker.context.connections.transaction((session) => {
    tries += 1;
    return session.run('insert', 'INSERT INTO public.held VALUES (1)');
  });
  await expect(failed).rejects.toMatchObject({ code: SQLSTATE.uniqueViolation });
  expect(tries).toBe(2);
});

/** A context that counts for how many successive answers its transactions have waited. */
function countingWaits({ connections, ...rest }: Context) {
  let waits = 0;
  const counted =
    (send: Session['run']): Session['run'] =>
    async (...statement) => {
      const nth = waits + 1;
      const rows = await send<never>(...statement);
      waits = Math.max(waits, nth);
      return rows;
    };
  const counting: Context = {
    ...rest,
    connections: {
      ...connections,
      transaction: (work, afterCommit) =>
        connections.transaction(
          ({ run, read }, attempt) => work({ run: counted(run), read: counted(read) }, attempt),
          afterCommit,
        ),
    },
  };
  return { counting, waits: () => waits };
}

it('a create waits three times: for the locks, for what it takes, and for the opening', async () => {
  const { context } = fixture.broker;
  const principal = digestOf(newToken('dbp'));
  const call = { traceId: '0'.repeat(32), principal };
  await provisionCapsule(context, call, 'waits', principal);
  await fixture.registry('DELETE FROM broker.spare');
  await context.connections.session((session) => makeSpare(session, context.spares));
  await context.connections.session((session) => adoptSpares(session, context.spares));
  const { counting, waits } = countingWaits(context);
  expect(await createApp(counting, call, 'waits', 'app')).toMatchObject({ created: true });
  expect(waits()).toBe(3);
});
