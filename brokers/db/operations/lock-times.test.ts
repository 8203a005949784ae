import { digestOf, newToken } from '@space/broker-kit';
import { type Session, StepError } from '@space/broker-kit/postgres';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Context } from '../context.ts';
import { observe } from '../isolation/observe.ts';
import { adoptSpares, makeSpare } from '../spares/pool.ts';
import { type Fixture, openFixture } from '../testing/postgres.ts';
import { withCut } from './cut.ts';
import { dropApp } from './drop.ts';
import { createApp, provisionCapsule } from './provision.ts';

/**
 * A tenant that holds a lock is put out while a statement waits for it. What nobody may put out is waited for: by whom,
 * and for how long, while others wait behind the broker's few connections?
 */
let fixture: Fixture;
let asking: Context;
/** Of each step, how long it might have waited for a lock, and how long it might have taken. */
let patience: Record<string, string> = {};
let longest: Record<string, string> = {};
beforeAll(async () => {
  fixture = await openFixture({}, { environment: { SPARE_DATABASES: '0' } });
  asking = thatAsks(fixture.broker.context);
  await provisionCapsule(asking, call, 'home', principal);
});
beforeEach(() => {
  patience = {};
  longest = {};
});
afterAll(() => fixture.close());

const principal = digestOf(newToken('dbp'));
const call = { traceId: '0'.repeat(32), principal };

/** A context that asks the server behind each statement which time holds there. */
function thatAsks({ connections, ...rest }: Context): Context {
  const ask = ({ run, read }: Session): Session => ({
    read,
    run: async (step, text, values) => {
      const [rows, [row]] = await Promise.all([
        run<never>(step, text, values),
        run<{ lock: string; statement: string }>(
          'ask',
          "SELECT current_setting('lock_timeout') AS lock, current_setting('statement_timeout') AS statement",
        ),
      ]);
      patience[step] = row!.lock;
      longest[step] = row!.statement;
      return rows;
    },
  });
  return {
    ...rest,
    connections: {
      ...connections,
      transaction: (work, afterCommit) =>
        connections.transaction((session, attempt) => work(ask(session), attempt), afterCommit),
      dropping: (work) => connections.dropping((session) => work(ask(session))),
    },
  };
}

async function cloned(): Promise<void> {
  const { connections, spares } = fixture.broker.context;
  await connections.session((session) => makeSpare(session, spares));
  await connections.session((session) => adoptSpares(session, spares));
}

describe('a lock that is never released is waited for', () => {
  it('0.3 s by a create that may take another spare, and 5 s by one that has the last', async () => {
    await cloned();
    await createApp(asking, call, 'home', 'first');
    expect(patience).toMatchObject({ 'take spare': '20s', 'open database': '300ms' });
    await createApp(asking, call, 'home', 'second');
    expect(patience).toMatchObject({ 'claim spare': '20s', 'open database': '5s' });
  });

  it('1 s by one that sets the password again', async () => {
    await createApp(asking, call, 'home', 'first');
    expect(patience).toMatchObject({ 'assert password': '1s' });
  });

  it('1 s by a cut, 75 s by the drop behind it, and 5 s by that of the role', async () => {
    await dropApp(asking, call, 'home', 'first');
    expect(patience).toMatchObject({ 'cut access': '1s', 'drop database': '75s', 'drop role': '5s' });
    // Its duration depends on what the tenant left; if it were stopped, it would begin again for ever.
    expect(longest).toMatchObject({ 'cut access': '75s', 'drop database': '0' });
  });

  it('5 s by a cut that has lost a race and locks the database', async () => {
    const { url } = await createApp(asking, call, 'home', 'second');
    const name = new URL(url).pathname.slice(1);
    let attempts = 0;
    await withCut(asking, async (session, cut) => {
      attempts += 1;
      if (attempts === 1)
        throw new StepError('cut access', Object.assign(new Error('updated'), { code: 'XX000' }));
      await cut([{ name, ...(await observe(session, name)) }]);
    });
    expect(patience).toMatchObject({ 'seize database': '5s', 'cut access': '5s' });
  });
});
