import { expect, it } from 'vitest';
import type { Session } from './connections.ts';
import { transact } from './transaction.ts';

it('what may change something waits for BEGIN, however its text begins; what changes nothing does not', async () => {
  const begun = Promise.withResolvers<never[]>();
  const sent: string[] = [];
  const session: Session = {
    run: async (step) => {
      sent.push(step);
      return step === 'begin' ? begun.promise : [];
    },
  };
  const done = transact(session, (inside) =>
    Promise.all([
      inside.run('change', 'SELECT lo_create(7)'),
      inside.run('look', 'SELECT 1', [], 'none'),
      inside.run('look too', 'WITH one AS (SELECT 1) SELECT * FROM one', [], 'none'),
    ]),
  );
  await Promise.resolve();
  expect(sent).toEqual(['begin', 'look', 'look too']);
  begun.resolve([]);
  await done;
  expect(sent).toEqual(['begin', 'look', 'look too', 'change', 'commit']);
});

it('nothing is changed where BEGIN fails', async () => {
  const sent: string[] = [];
  const session: Session = {
    run: async (step) => {
      sent.push(step);
      if (step === 'begin') throw new Error('no transaction');
      return [];
    },
  };
  const failed = transact(session, (inside) => inside.run('change', 'SELECT lo_create(7)'));
  await expect(failed).rejects.toThrow('no transaction');
  expect(sent).toEqual(['begin', 'rollback']);
});
