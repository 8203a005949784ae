import { expect, it } from 'vitest';
import { type Session, sessionOver } from './session.ts';
import { transact } from './transaction.ts';

it('a statement that is run waits for BEGIN, however its text begins; one that is read does not', async () => {
  const begun = Promise.withResolvers<never[]>();
  const sent: string[] = [];
  const session: Session = sessionOver(async (step) => {
    sent.push(step);
    return step === 'begin' ? begun.promise : [];
  });
  const done = transact(session, (inside) =>
    Promise.all([
      inside.run('change', 'SELECT lo_create(7)'),
      inside.read('look', 'SELECT 1'),
      inside.read('look too', 'WITH one AS (SELECT 1) SELECT * FROM one'),
    ]),
  );
  await Promise.resolve();
  expect(sent).toEqual(['begin', 'look', 'look too']);
  begun.resolve([]);
  await done;
  expect(sent).toEqual(['begin', 'look', 'look too', 'change', 'commit']);
});

it('nothing is changed if BEGIN fails', async () => {
  const sent: string[] = [];
  const session: Session = sessionOver(async (step) => {
    sent.push(step);
    if (step === 'begin') throw new Error('no transaction');
    return [];
  });
  const failed = transact(session, (inside) => inside.run('change', 'SELECT lo_create(7)'));
  await expect(failed).rejects.toThrow('no transaction');
  expect(sent).toEqual(['begin', 'rollback']);
});

it('nothing is sent between the end of the work and the answer to COMMIT', async () => {
  const committed = Promise.withResolvers<never[]>();
  const sent: string[] = [];
  const session: Session = sessionOver(async (step) => {
    sent.push(step);
    return step === 'commit' ? committed.promise : [];
  });
  let kept: Session | undefined;
  const done = transact(session, async (inside) => {
    kept = inside;
  });
  while (!sent.includes('commit')) await Promise.resolve();
  await expect(kept?.run('late', 'SELECT 1')).rejects.toThrow(/late: its session has ended/);
  await expect(kept?.read('late too', 'SELECT 1')).rejects.toThrow(/late too: its session has ended/);
  committed.resolve([]);
  await done;
  expect(sent).toEqual(['begin', 'commit']);
});
